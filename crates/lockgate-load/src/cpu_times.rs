//! Load of each CPU of the machine, by all processes, from /proc/stat.

use std::time::Duration;

/// Times of each CPU since the machine was started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuTimes(Vec<CpuTime>);

/// Time of one CPU, in steps of 10 ms on most machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuTime {
    /// Number of the CPU, from 0 on.
    pub cpu: usize,
    /// Time of processes, and time that a hypervisor gave to other machines.
    pub processes: Duration,
    /// The same with interrupts, network interrupts included.
    pub busy: Duration,
    /// The whole time, idle time included.
    pub whole: Duration,
}

impl CpuTimes {
    /// The times now; empty where /proc/stat cannot be read.
    pub fn now() -> Self {
        Self::parse(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    /// proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal; guests are in user.
    fn parse(text: &str) -> Self {
        let second = rustix::param::clock_ticks_per_second();
        let time = |ticks: u64| Duration::from_nanos(ticks * (1_000_000_000 / second));
        let cpus = text.lines().filter_map(|line| {
            let mut words = line.strip_prefix("cpu")?.split_whitespace();
            // The first line, of all together, has a blank before its first figure.
            let number = line
                .chars()
                .nth(3)?
                .is_ascii_digit()
                .then(|| words.next())??;
            let ticks: Vec<u64> = words.take(8).filter_map(|word| word.parse().ok()).collect();
            let [user, nice, system, idle, waiting, hard, soft, stolen] = *ticks.first_chunk()?;
            let processes = user + nice + system + stolen;
            let busy = processes + hard + soft;
            Some(CpuTime {
                cpu: number.parse().ok()?,
                processes: time(processes),
                busy: time(busy),
                whole: time(busy + idle + waiting),
            })
        });
        Self(cpus.collect())
    }

    /// The difference to `earlier`, for the CPUs that both have.
    pub fn since(&self, earlier: &Self) -> Vec<CpuTime> {
        let both = self.0.iter().filter_map(|now| {
            let before = earlier.0.iter().find(|before| before.cpu == now.cpu)?;
            Some(CpuTime {
                cpu: now.cpu,
                processes: now.processes.saturating_sub(before.processes),
                busy: now.busy.saturating_sub(before.busy),
                whole: now.whole.saturating_sub(before.whole),
            })
        });
        both.collect()
    }
}

impl CpuTime {
    /// Busy share of the time, 0 to 1.
    pub fn share(&self) -> f64 {
        if self.whole.is_zero() {
            0.0
        } else {
            self.busy.as_secs_f64() / self.whole.as_secs_f64()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_is_busy_with_processes_and_interrupts_and_not_while_it_waits_for_a_disk() {
        let before =
            CpuTimes::parse("cpu  9 9 9 9 9 9 9 9\ncpu0 10 0 10 100 0 0 0 0 0 0\nintr 5\n");
        let after = CpuTimes::parse(
            "cpu  9 9 9 9 9 9 9 9\ncpu0 30 0 20 150 10 1 4 5 0 0\ncpu7 1 1 1 1 1 1 1 1\n",
        );
        let [used] = after.since(&before)[..] else {
            panic!("one CPU is in both")
        };
        let ticks = |ticks: u64| {
            Duration::from_nanos(ticks * 1_000_000_000 / rustix::param::clock_ticks_per_second())
        };
        let expected = CpuTime {
            cpu: 0,
            processes: ticks(35),
            busy: ticks(40),
            whole: ticks(100),
        };
        assert_eq!(used, expected);
        assert_eq!(used.share(), 0.4);
    }
}
