//! Profiles of the processes under test while load runs: where their CPU time goes, what they wait for, how many system
//! calls and allocations a request costs.
//!
//! perf measures. What a machine does not permit is not left out but reported with the reason: see [`Finding`]. A
//! profile disturbs what it observes, so the rates of a profiled block are no measurement.
//!
//! All parts observe the same time, from [`Profiler::start`] to [`Running::finish`]. The two counters run to the end,
//! so their counts divided by the requests of that time are exact, whatever the probes cost. The two samplers stop
//! earlier.

mod allocations;
mod calls;
mod cpu;
mod flame;
mod perf;
mod summary;
#[cfg(test)]
mod tests;
mod waits;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use self::allocations::Probes;
use self::perf::Started;
pub use self::summary::{Calls, Cpu, Finding, ProfileSummary, TargetProfile, Waits};

/// The directory of profiles in the directory of a run.
pub const DIRECTORY: &str = "profiles";

/// A service to profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The name in the report.
    pub name: String,
    /// Its processes; their threads and children are profiled too.
    pub pids: Vec<u32>,
}

/// Why there is no profile at all. A missing part is no error but a [`Finding`].
#[derive(Debug)]
pub enum ProfileError {
    /// Its files cannot be written.
    File(PathBuf, io::Error),
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, cause) => write!(f, "{}: {cause}", path.display()),
        }
    }
}

impl std::error::Error for ProfileError {}

/// Begins profiles.
#[derive(Debug)]
pub struct Profiler;

/// A profile in progress. Dropping it ends its processes and removes its probes from the kernel.
#[derive(Debug)]
pub struct Running {
    title: String,
    started: Instant,
    /// The directory `profiles/` of the run.
    directory: PathBuf,
    /// The first part of all file names of this profile.
    name: String,
    targets: Vec<Looking>,
    /// Dropped after the targets: a probe in use cannot be removed.
    _probes: Option<Probes>,
    _samples: Samples,
}

/// The observers of a target.
#[derive(Debug)]
struct Looking {
    name: String,
    cpu: Started,
    waits: Started,
    system_calls: calls::Counting,
    allocations: Started,
}

impl Profiler {
    /// Starts to profile `targets`, for at most `longest`; `directory` is that of the run. When it returns, everything
    /// observes: load that starts now is seen from its first request.
    pub fn start(
        title: &str,
        targets: &[Target],
        longest: Duration,
        directory: &Path,
    ) -> Result<Running, ProfileError> {
        let directory = directory.join(DIRECTORY);
        let name = file_name(title);
        let samples = Samples(directory.join(format!("{name}.unfinished")));
        fs::create_dir_all(&samples.0)
            .map_err(|error| ProfileError::File(samples.0.clone(), error))?;
        let pids: Vec<u32> = targets
            .iter()
            .flat_map(|target| target.pids.clone())
            .collect();
        let probes = Probes::put(&pids);
        let looking = targets.iter().enumerate().map(|(index, target)| {
            let file = |part: &str| samples.0.join(format!("{index}.{part}"));
            Looking {
                name: target.name.clone(),
                cpu: cpu::start(&target.pids, longest, &file("cpu")),
                waits: waits::start(&target.pids, longest, &file("waits")),
                system_calls: calls::start(&target.pids, longest, &file("calls")),
                allocations: match &probes {
                    Ok(probes) => {
                        allocations::start(probes, &target.pids, longest, &file("allocations"))
                    }
                    Err(why) => Started::Failed(why.clone()),
                },
            }
        });
        let mut looking: Vec<Looking> = looking.collect();
        for target in &mut looking {
            target.cpu.wait_until_looking();
            target.waits.wait_until_looking();
            target.system_calls.wait_until_looking();
            target.allocations.wait_until_looking();
        }
        Ok(Running {
            title: title.to_owned(),
            started: Instant::now(),
            name,
            targets: looking,
            _probes: probes.ok(),
            directory,
            _samples: samples,
        })
    }
}

impl Running {
    /// Ends the profile, and writes `profiles/NAME.json` and its graphs. `requests` is how many ended since the start.
    /// For exact counts, none may be in flight at either moment.
    pub fn finish(mut self, requests: u64) -> Result<ProfileSummary, ProfileError> {
        let seconds = self.started.elapsed().as_secs_f64();
        let mut targets = Vec::new();
        for looking in std::mem::take(&mut self.targets) {
            targets.push(self.conclude(looking, requests, seconds)?);
        }
        let summary = ProfileSummary {
            title: self.title.clone(),
            seconds,
            requests,
            targets,
        };
        let mut text = serde_json::to_vec_pretty(&summary).expect("the types are plain data");
        text.push(b'\n');
        self.save(&format!("{}.json", self.name), &text)?;
        Ok(summary)
    }

    fn conclude(
        &self,
        looking: Looking,
        requests: u64,
        seconds: f64,
    ) -> Result<TargetProfile, ProfileError> {
        let Looking { name, .. } = looking;
        let stem = format!("{}.{}", self.name, file_name(&name));
        // The counts come first: work done while the samples are read must not be counted.
        let system_calls = calls::finish(looking.system_calls, requests, seconds).into();
        let allocations = allocations::finish(looking.allocations, requests).into();
        let (cpu, waits) = (cpu::finish(looking.cpu), waits::finish(looking.waits));
        Ok(TargetProfile {
            cpu: match cpu {
                Ok(sampled) => {
                    let graph = format!("{stem}.cpu.svg");
                    self.save(&graph, &flame::cpu(&name, &sampled.folded))?;
                    Finding::Measured(sampled.summary(graph))
                }
                Err(why) => Finding::Unavailable(why),
            },
            waits: match waits {
                Ok(waited) => {
                    let graph = format!("{stem}.off-cpu.svg");
                    self.save(&graph, &flame::waits(&name, &waited.folded()))?;
                    Finding::Measured(waited.summary(graph))
                }
                Err(why) => Finding::Unavailable(why),
            },
            system_calls,
            allocations,
            name,
        })
    }

    fn save(&self, file: &str, content: &[u8]) -> Result<(), ProfileError> {
        let path = self.directory.join(file);
        fs::write(&path, content).map_err(|error| ProfileError::File(path, error))
    }
}

impl<T> From<Result<T, String>> for Finding<T> {
    fn from(result: Result<T, String>) -> Self {
        match result {
            Ok(found) => Self::Measured(found),
            Err(why) => Self::Unavailable(why),
        }
    }
}

/// The directory of samples: many megabytes that are useless once they are counted.
#[derive(Debug)]
struct Samples(PathBuf);

impl Drop for Samples {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A title as a file name: `nginx, cached` is `nginx-cached`.
fn file_name(title: &str) -> String {
    let words = title.split(|letter: char| !letter.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let name = words.join("-").to_ascii_lowercase();
    if name.is_empty() {
        "profile".to_owned()
    } else {
        name
    }
}
