//! How much memory the process has taken.

/// The largest resident set of this process so far, in bytes: `VmHWM` of `/proc/self/status`.
///
/// `None` where the operating system does not say (anywhere but on Linux).
#[must_use]
pub fn peak_resident_bytes() -> Option<u64> {
    peak_of(&std::fs::read_to_string("/proc/self/status").ok()?)
}

fn peak_of(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_line_of_the_kernel() {
        assert_eq!(
            peak_of("Name:\tx\nVmHWM:\t    5120 kB\nVmRSS:\t 1 kB\n"),
            Some(5120 * 1024)
        );
        assert_eq!(peak_of("VmRSS:\t 1 kB\n"), None);
        assert_eq!(peak_of("VmHWM:\t many kB\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_a_peak() {
        assert!(peak_resident_bytes().unwrap() > 100_000);
    }
}
