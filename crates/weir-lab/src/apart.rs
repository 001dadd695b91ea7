//! CPUs that are the generator's alone. Where it shares them with services, each of them waits for the other, and sends or answers late.
//!
//! Threads and processes inherit the CPUs of the thread that starts them.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::LabError;

/// The CPUs of this thread, in two parts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Apart {
    all: CpuSet,
    services: CpuSet,
    generator: CpuSet,
}

/// Until it is dropped, this thread has the CPUs of services only.
pub(crate) struct Confined(CpuSet);

impl Apart {
    /// Gives the generator so many of the CPUs that this thread may use; `None` where it shares all of them.
    pub(crate) fn of(generator_cpus: usize) -> Result<Option<Self>, LabError> {
        if generator_cpus == 0 {
            return Ok(None);
        }
        let all = sched_getaffinity(None);
        let all = all.map_err(|error| LabError::System("read CPUs".to_owned(), error.into()))?;
        let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu));
        let cpus: Vec<usize> = cpus.collect();
        let Some(left) = cpus
            .len()
            .checked_sub(generator_cpus)
            .filter(|left| *left > 0)
        else {
            return Err(LabError::Configuration(format!(
                "this scenario keeps {generator_cpus} CPUs for the generator, and there are only {}",
                cpus.len()
            )));
        };
        let set = |cpus: &[usize]| {
            let mut set = CpuSet::new();
            for cpu in cpus {
                set.set(*cpu);
            }
            set
        };
        Ok(Some(Self {
            all,
            services: set(&cpus[..left]),
            generator: set(&cpus[left..]),
        }))
    }

    /// What this thread starts from now on has the CPUs of services.
    pub(crate) fn confine(self) -> Result<Confined, LabError> {
        settle(&self.services)?;
        Ok(Confined(self.all))
    }

    /// This thread, and what it starts from now on, has the CPUs of the generator.
    pub(crate) fn generate(self) -> Result<(), LabError> {
        settle(&self.generator)
    }
}

impl Drop for Confined {
    fn drop(&mut self) {
        let _ = settle(&self.0);
    }
}

fn settle(cpus: &CpuSet) -> Result<(), LabError> {
    let settled = sched_setaffinity(None, cpus);
    settled.map_err(|error| LabError::System("choose CPUs".to_owned(), error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_the_cpus_of_services_and_then_its_own_again() {
        let mine = || sched_getaffinity(None).expect("they can be read");
        let all = mine();
        assert!(Apart::of(0).expect("it is shared").is_none());
        assert!(Apart::of(CpuSet::MAX_CPU).is_err());
        if all.count() < 2 {
            assert!(Apart::of(1).is_err());
            return;
        }
        let apart = Apart::of(1).expect("two CPUs").expect("apart");
        let confined = apart.confine().expect("they can be chosen");
        assert_eq!(mine().count(), all.count() - 1);
        let of_generator = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                apart.generate().expect("they can be chosen");
                mine()
            });
            thread.join().expect("it does not panic")
        });
        assert_eq!(of_generator.count(), 1);
        let shared = (0..CpuSet::MAX_CPU).filter(|cpu| mine().is_set(*cpu));
        assert!(shared.into_iter().all(|cpu| !of_generator.is_set(cpu)));
        drop(confined);
        assert_eq!(mine(), all);
    }
}
