//! A worker that does not turn any more is told of where somebody looks, and until it turns again.

use serde_json::Value;

use crate::harness::client::{Response, ask_admin};
use crate::harness::process::Process;
use crate::harness::{Directory, free_port, wait_until};

/// Runs the gateway as its child, stops one of its threads as a debugger does when the file `stop` appears, and lets it go on
/// when the file `go` does. That needs no privilege, because it is its own child.
const DEBUGGER: &str = r#"
import ctypes, os, subprocess, sys, time
weir, config, stop, go = sys.argv[1:]
ptrace = ctypes.CDLL(None, use_errno=True).ptrace
ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
ATTACH, DETACH = 16, 17
# It ends with this process, however that ends (PR_SET_PDEATHSIG, SIGKILL).
ends = lambda: ctypes.CDLL(None).prctl(1, 9)
gateway = subprocess.Popen([weir, "serve", "--config", config], preexec_fn=ends)
def wait(path):
    while not os.path.exists(path):
        if gateway.poll() is not None:
            sys.exit("the gateway ended")
        time.sleep(0.01)
try:
    wait(stop)
    tasks = f"/proc/{gateway.pid}/task"
    thread = next(int(t) for t in os.listdir(tasks) if open(f"{tasks}/{t}/comm").read() == "worker-1\n")
    if ptrace(ATTACH, thread, None, None) != 0:
        sys.exit(f"a thread cannot be traced: {os.strerror(ctypes.get_errno())}")
    os.waitpid(thread, 0x40000000)
    wait(go)
    if ptrace(DETACH, thread, None, None) != 0:
        sys.exit("a thread cannot be let go")
    wait(go + ".end")
finally:
    gateway.kill()
"#;

#[test]
fn a_worker_that_stands_still_is_named_until_it_turns_again() {
    let directory = Directory::new();
    let (port, admin) = (free_port(), free_port());
    let config = directory.write(
        "weir.toml",
        format!(
            "[server]\nworkers = 2\n[[listener]]\naddress = \"127.0.0.1:{port}\"\n\
             [admin]\nlisten = \"127.0.0.1:{admin}\"\n[[route]]\npath = \"/\"\nrespond = {{}}\n"
        ),
    );
    let file = |name: &str| directory.file(name).to_str().expect("UTF-8").to_owned();
    let (stop, go) = (file("stop"), file("go"));
    let config = config.to_str().expect("UTF-8");
    let weir = env!("CARGO_BIN_EXE_weir");
    let process = Process::start(
        "python3",
        &["-c", DEBUGGER, weir, config, &stop, &go],
        &directory,
    );
    let admin = ([127, 0, 0, 1], admin).into();
    process.wait_for_port(admin);
    let healthz = || ask_admin(admin, "/healthz");
    assert_eq!(healthz().text(), "ok\n");
    assert_eq!(stuck(&ask_admin(admin, "/status")), Vec::<u64>::new());

    directory.write("stop", "");
    wait_until("the worker is stuck", || healthz().status == 503);
    let said = healthz().text();
    assert!(
        said.starts_with("worker 1 has not turned for ") && said.lines().count() == 1,
        "{said}"
    );
    assert_eq!(stuck(&ask_admin(admin, "/status")), [1]);

    directory.write("go", "");
    wait_until("it turns again", || healthz().status == 200);
    assert_eq!(stuck(&ask_admin(admin, "/status")), Vec::<u64>::new());
    directory.write("go.end", "");
}

/// The workers that `/status` names.
fn stuck(status: &Response) -> Vec<u64> {
    let status: Value = serde_json::from_slice(&status.body).expect("/status is JSON");
    let stuck = status["stuck"].as_array().expect("a list").iter();
    stuck
        .map(|stuck| {
            assert!(stuck["for_ms"].as_u64() >= Some(2000), "{stuck}");
            stuck["worker"].as_u64().expect("a number")
        })
        .collect()
}
