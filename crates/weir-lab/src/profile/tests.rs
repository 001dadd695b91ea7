//! Reads what perf and strace print; integration tests check whether they run here.

use super::*;

#[test]
fn a_wait_lasts_from_leaving_a_cpu_to_coming_back() {
    let script = "\
worker 0 11 [001]   10.000000: PERF_RECORD_SWITCH IN
worker 0 11 [001]   10.000100: sched:sched_switch: prev_comm=worker prev_pid=11 prev_prio=120 prev_state=S ==> next_comm=x
\tffffffff821f5618 __schedule
\tffffffff8172d0b8 do_epoll_wait
\t          108f36 epoll_wait

worker 0 11 [001]   10.000101: PERF_RECORD_SWITCH OUT
    wrk 12 [000]   10.000200: sched:sched_switch: prev_comm=wrk prev_pid=12 prev_prio=120 prev_state=R+ ==> next_comm=x
\tffffffff821f5618 __schedule

worker 0 11 [001]   10.000350: PERF_RECORD_SWITCH IN
    wrk 12 [000]   10.000240: PERF_RECORD_SWITCH IN
";
    let waited = waits::read(script);
    let kinds: Vec<(&str, f64)> = waited
        .by_kind
        .iter()
        .map(|(kind, us)| (*kind, us.round()))
        .collect();
    assert_eq!(kinds, [("a CPU", 40.0), ("events", 250.0)]);
    assert_eq!(
        waited.folded(),
        "worker 0;epoll_wait;do_epoll_wait;__schedule 250\nwrk;__schedule 40\n"
    );
}

#[test]
fn counts_of_perf_are_read() {
    let text = "# started on Sat\n\n414393,,raw_syscalls:sys_enter,868034758,100.00,,\n<not counted>,,syscalls:sys_enter_bind,0,0.00,,\n";
    let counts = calls::read_counts(text).expect("counts");
    let expected = [
        ("raw_syscalls:sys_enter", 414_393),
        ("syscalls:sys_enter_bind", 0),
    ];
    assert_eq!(
        counts,
        expected.map(|(name, count)| (name.to_owned(), count))
    );
}

#[test]
fn an_event_that_is_not_supported_is_said() {
    let why = calls::read_counts("<not supported>,,syscalls:sys_enter_read,0,0.00,,\n");
    assert_eq!(
        why,
        Err("perf cannot count syscalls:sys_enter_read here".to_owned())
    );
}

#[test]
fn counts_of_strace_are_read() {
    let text = "     calls syscall\n--------- ----------------\n        57 sendto\n        12 epoll_wait\n--------- ----------------\n        69 total\n";
    let counts = calls::read_strace(text);
    assert_eq!(
        counts,
        [("sendto".to_owned(), 57), ("epoll_wait".to_owned(), 12)]
    );
}

#[test]
fn the_most_frequent_calls_come_first() {
    let counts =
        [("read", 10), ("write", 30), ("close", 0)].map(|(name, count)| (name.to_owned(), count));
    let calls = calls::per_request("by hand", 50, counts.into(), 10.0);
    assert!((calls.per_request - 5.0).abs() < 1e-9);
    assert_eq!(
        calls.by_name,
        [("write".to_owned(), 3.0), ("read".to_owned(), 1.0)]
    );
}

#[test]
fn titles_become_file_names() {
    assert_eq!(
        file_name("nginx, cached / 6 at a time"),
        "nginx-cached-6-at-a-time"
    );
    assert_eq!(file_name("../.."), "profile");
}
