//! Lists of CPUs as taskset(1) and cpusets write them: `0`, `0,2`, `4-7`.

use std::fmt;
use std::str::FromStr;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A list of CPUs: at least one, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpus(Vec<usize>);

impl Cpus {
    /// Pins the calling thread, and with it all that it starts from now on.
    ///
    /// # Errors
    /// None of them exists, or none may be used.
    pub fn pin(&self) -> std::io::Result<()> {
        let mut set = CpuSet::new();
        for cpu in &self.0 {
            set.set(*cpu);
        }
        Ok(sched_setaffinity(None, &set)?)
    }

    /// CPUs of the list that this thread may not use: absent, or excluded by a cpuset.
    pub fn missing(&self) -> Vec<usize> {
        let Ok(may) = sched_getaffinity(None) else {
            return Vec::new();
        };
        self.0
            .iter()
            .copied()
            .filter(|cpu| !may.is_set(*cpu))
            .collect()
    }

    /// The numbers of the CPUs.
    pub fn numbers(&self) -> &[usize] {
        &self.0
    }
}

impl FromStr for Cpus {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        let wrong = || format!("`{written}` is no list of CPUs: write 0, or 0,2, or 4-7");
        let mut found = Vec::new();
        for part in written.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let [first, last] = [first, last].map(|word| word.trim().parse::<usize>());
            let (first, last) = (first.map_err(|_| wrong())?, last.map_err(|_| wrong())?);
            if first > last || last >= CpuSet::MAX_CPU {
                return Err(wrong());
            }
            found.extend(first..=last);
        }
        found.sort_unstable();
        found.dedup();
        Ok(Self(found))
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&words.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges_are_read() {
        for (written, means) in [
            ("0", &[0][..]),
            ("2,0", &[0, 2]),
            ("4-7", &[4, 5, 6, 7]),
            ("1,0-2, 9", &[0, 1, 2, 9]),
        ] {
            assert_eq!(
                written.parse::<Cpus>().unwrap().numbers(),
                means,
                "{written}"
            );
        }
    }

    #[test]
    fn an_invalid_cpu_list_is_refused() {
        for written in ["", "a", "1,", "3-1", "-1", "0-", "99999999"] {
            assert!(written.parse::<Cpus>().is_err(), "{written}");
        }
    }
}
