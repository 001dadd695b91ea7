//! `weir load`: puts a service under load and prints what was measured.
//!
//! Results go to standard output, and all other messages to standard error, so that either can be piped.

mod args;
mod exit;
mod live;
mod planning;
mod url;

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use weir_load::promise::Promise;
use weir_load::verdict::Verdict;
use weir_load::{Plan, Report};

pub(crate) use self::args::LoadArgs;

use self::live::Live;
use super::signals::{Instruction, Signals};

pub(crate) fn run(args: &LoadArgs) -> ExitCode {
    measure(args).unwrap_or_else(|error| {
        eprintln!("{error:#}");
        exit::NOT_STARTED.into()
    })
}

fn measure(args: &LoadArgs) -> anyhow::Result<ExitCode> {
    let plan = planning::plan(args)?;
    let promises = planning::promises(args)?;
    fit_to_descriptors(&plan)?;
    let stop = stop_on_signal()?;
    let outputs = Outputs::create(args)?;
    if args.find_max {
        return find_max(args, &plan, promises, &stop, outputs);
    }
    let mut live = Live::begin(args.quiet);
    let report = weir_load::run(plan, &stop, |progress| live.show(progress));
    drop(live);
    let report = report?;
    let verdict = Verdict::of(&report, &promises);
    outputs.write(&report, verdict, &promises)?;
    Ok(exit::of(verdict).into())
}

fn find_max(
    args: &LoadArgs,
    plan: &Plan,
    promises: Vec<Promise>,
    stop: &AtomicBool,
    outputs: Outputs,
) -> anyhow::Result<ExitCode> {
    let search = planning::search(args, promises);
    let mut live = Live::begin(args.quiet);
    let knee = weir_load::search::find_max(plan, &search, stop, |step| live.say(&step.to_string()));
    drop(live);
    let knee = knee?;
    if !outputs.is_json_on_stdout() {
        say(&if args.quiet {
            knee.line()
        } else {
            knee.to_text()
        })?;
    }
    outputs.write_json(&knee.to_json())?;
    Ok(exit::of_search(&knee).into())
}

/// A flag that the first signal sets; the second one ends the process at once.
fn stop_on_signal() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::<AtomicBool>::default();
    let is_set = Arc::clone(&stop);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut signals = runtime.block_on(async { Signals::listen() })?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            loop {
                if signals.next().await != Instruction::End {
                    continue;
                }
                if is_set.swap(true, Ordering::Relaxed) {
                    live::restore();
                    std::process::exit(130);
                }
            }
        });
    });
    Ok(stop)
}

/// Descriptors for everything but connections.
const DESCRIPTORS_KEPT: u64 = 64;

fn fit_to_descriptors(plan: &Plan) -> anyhow::Result<()> {
    let (soft, hard) = rlimit::Resource::NOFILE.get()?;
    let needed = plan.connections as u64 + DESCRIPTORS_KEPT;
    anyhow::ensure!(
        needed <= hard,
        "--connections {}: this process may open {hard} files and needs {needed}; raise the limit (ulimit -n {needed}), or use \
         fewer connections",
        plan.connections
    );
    if soft < needed {
        rlimit::Resource::NOFILE.set(needed, hard)?;
    }
    Ok(())
}

/// Where results go. Files are opened before the run: one that cannot be written must not cost a run. What is in them stays
/// until there is something to write.
struct Outputs {
    /// Standard output gets one line instead of the whole report.
    is_quiet: bool,
    json: Option<Output>,
    csv: Option<Output>,
    hdr_log: Option<Output>,
}

enum Output {
    Stdout,
    File(PathBuf, File),
}

impl Outputs {
    fn create(args: &LoadArgs) -> anyhow::Result<Self> {
        let create = |path: &Option<PathBuf>| path.as_deref().map(Output::create).transpose();
        let outputs = Self {
            is_quiet: args.quiet,
            json: create(&args.json)?,
            csv: create(&args.csv)?,
            hdr_log: create(&args.hdr_log)?,
        };
        let all = [&args.json, &args.csv, &args.hdr_log];
        let named: Vec<&Path> = all.into_iter().flatten().map(PathBuf::as_path).collect();
        for (index, path) in named.iter().enumerate() {
            anyhow::ensure!(
                !named[..index].contains(path),
                "--json, --csv and --hdr-log cannot share {}; name a file for each",
                match path.to_str() {
                    Some("-") => "standard output".to_owned(),
                    _ => path.display().to_string(),
                }
            );
        }
        Ok(outputs)
    }

    fn is_json_on_stdout(&self) -> bool {
        matches!(self.json, Some(Output::Stdout))
    }

    fn write(self, report: &Report, verdict: Verdict, promises: &[Promise]) -> anyhow::Result<()> {
        let all = [&self.json, &self.csv, &self.hdr_log];
        if !all
            .iter()
            .any(|output| matches!(output, Some(Output::Stdout)))
        {
            let line = verdict.line(report, promises);
            say(&match (self.is_quiet, promises.is_empty()) {
                (true, _) => line,
                (false, false) => format!("{}\n{line}", report.to_text()),
                (false, true) => report.to_text(),
            })?;
        }
        if let Some(csv) = &self.csv {
            csv.write(|out| out.write_all(report.to_csv().as_bytes()))?;
        }
        if let Some(hdr_log) = &self.hdr_log {
            hdr_log.write(|mut out| report.write_hdr_log(&mut out))?;
        }
        let mut json = report.to_json();
        verdict.add_to(&mut json, report, promises);
        self.write_json(&json)
    }

    fn write_json(self, json: &serde_json::Value) -> anyhow::Result<()> {
        let Some(output) = &self.json else {
            return Ok(());
        };
        output.write(|out| {
            serde_json::to_writer_pretty(&mut *out, json)?;
            out.write_all(b"\n")
        })
    }
}

impl Output {
    fn create(path: &Path) -> anyhow::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        let mut writing = File::options();
        let file = writing.write(true).create(true).truncate(false).open(path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self::File(path.to_owned(), file))
    }

    fn write(
        &self,
        write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        match self {
            Self::Stdout => {
                write(&mut io::stdout().lock()).context("cannot write to standard output")
            }
            Self::File(path, file) => {
                let mut out = BufWriter::new(file);
                // A pipe or a device has nothing to cut off.
                let emptied = if file.metadata().is_ok_and(|it| it.is_file()) {
                    file.set_len(0)
                } else {
                    Ok(())
                };
                emptied
                    .and_then(|()| write(&mut out))
                    .and_then(|()| out.flush())
                    .with_context(|| format!("cannot write {}", path.display()))
            }
        }
    }
}

fn say(text: &str) -> anyhow::Result<()> {
    io::stdout()
        .write_all(text.as_bytes())
        .context("cannot write to standard output")
}

/// Whether a person watches standard error, on a terminal that can be redrawn.
fn is_watched() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}
