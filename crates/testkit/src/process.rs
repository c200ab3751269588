//! Child processes that cannot outlive the test process.
//!
//! A test that is killed runs no `Drop`, so the kernel must do the cleaning: every child asks for a signal at its
//! parent's death. That signal comes when the *thread* that forked ends, and test threads end all the time, so all
//! forking is done by one thread that never does.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;

/// Starts a child that gets `death_signal` when this process ends, however it ends.
pub(crate) fn spawn(mut command: Command, death_signal: i32) -> io::Result<Child> {
    die_with_parent(&mut command, death_signal);
    let (answer, child) = channel();
    spawner().send((command, answer)).expect("the spawning thread never ends");
    child.recv().expect("the spawning thread answers every request")
}

/// Starts a child that is killed when this process ends, however it ends.
pub fn spawn_child(command: Command) -> io::Result<Child> {
    spawn(command, libc::SIGKILL)
}

/// Sends a signal to a process that we started and have not waited for yet.
#[expect(unsafe_code, reason = "std can only send SIGKILL")]
pub(crate) fn signal(child: &Child, signal: i32) {
    let pid = libc::pid_t::try_from(child.id()).expect("a process id fits");
    // SAFETY: kill takes two integers and touches no memory; the child is not reaped, so the id is still its own.
    unsafe { libc::kill(pid, signal) };
}

/// Lets this process, and those it starts from now on, open this many files; panics where the system forbids it.
#[expect(unsafe_code, reason = "std does not know the limits of a process")]
pub fn allow_open_files(wanted: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls only read or fill the struct that they are given.
    let outcome = unsafe {
        let read = libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = limit.rlim_cur.max(wanted.min(limit.rlim_max));
        (read, libc::setrlimit(libc::RLIMIT_NOFILE, &limit))
    };
    assert_eq!(outcome, (0, 0), "the limit of open files can be set");
    assert!(
        limit.rlim_cur >= wanted,
        "{} files may be open and {wanted} are needed: raise `ulimit -Hn`",
        limit.rlim_cur
    );
}

type Request = (Command, Sender<io::Result<Child>>);

fn spawner() -> Sender<Request> {
    static SPAWNER: OnceLock<Sender<Request>> = OnceLock::new();
    SPAWNER
        .get_or_init(|| {
            let (requests, queue) = channel::<Request>();
            let work = move || {
                for (mut command, answer) in queue {
                    // The asker waits for the answer, so it is gone only if its thread panicked meanwhile.
                    let _ = answer.send(command.spawn());
                }
            };
            thread::Builder::new().name("spawner".into()).spawn(work).expect("a thread can be started");
            requests
        })
        .clone()
}

#[expect(unsafe_code, reason = "the parent-death signal can only be asked for between fork and exec")]
fn die_with_parent(command: &mut Command, signal: i32) {
    let parent = std::process::id();
    // SAFETY: the closure only makes two system calls, both allowed between fork and exec. It runs after the change
    // of user, which would otherwise clear the setting.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, signal) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The parent may have died before the line above.
            if libc::getppid().unsigned_abs() != parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        });
    }
}
