//! Confines the compiler process from within, before it reads any input.
//!
//! Several mechanisms overlap because no system has all of them. Each one is effective by itself.

#[cfg(target_os = "linux")]
use crate::load::own_process;
use rustix::process::Pid;

/// Mechanisms that the system does not offer.
pub(super) type MissingMechanisms = Vec<&'static str>;

/// The name of a step, and a function that returns whether it succeeded.
type Step = (&'static str, fn() -> bool);

/// Drops every privilege that this process does not need to read a component from standard input,
/// compile it and write the result to standard output. Returns the steps that failed.
#[cfg(target_os = "linux")]
pub(super) fn confine() -> MissingMechanisms {
    let steps: [Step; 5] = [
        ("closing inherited descriptors", linux::inherit_nothing),
        ("an empty network namespace", linux::leave_the_network),
        ("Landlock, against access to files", linux::give_up_files),
        ("dropping capabilities", own_process::drop_capabilities),
        ("no_new_privs and seccomp, against system calls that it does not need", linux::filter_system_calls),
    ];
    // The order matters: a later step may remove something that an earlier one needs.
    steps.into_iter().filter_map(|(name, step)| (!step()).then_some(name)).collect()
}

/// Other systems have only the resource limits.
#[cfg(not(target_os = "linux"))]
pub(super) fn confine() -> MissingMechanisms {
    vec!["confinement of the compiler process, which requires Linux"]
}

#[cfg(target_os = "linux")]
mod linux {
    use super::own_process;
    use landlock::{ABI, Access as _, AccessFs, AccessNet, Ruleset, RulesetAttr as _, RulesetStatus, Scope};
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
        SeccompRule, TargetArch,
    };
    use std::collections::BTreeMap;

    /// The process uses only the standard streams.
    const LAST_STREAM: i32 = 2;

    pub(super) fn inherit_nothing() -> bool {
        let is_beyond = |name: &std::ffi::OsStr| {
            name.to_str().and_then(|name| name.parse().ok()).is_some_and(|number: i32| number > LAST_STREAM)
        };
        // The only other descriptor is that of the listing. Without a listing, trust the return
        // value.
        let only_one = |listed: std::fs::ReadDir| {
            listed.filter(|entry| entry.as_ref().is_ok_and(|entry| is_beyond(&entry.file_name()))).count()
                == 1
        };
        own_process::close_descriptors() && std::fs::read_dir("/proc/self/fd").map_or(true, only_one)
    }

    pub(super) fn leave_the_network() -> bool {
        let elsewhere = libc::CLONE_NEWNET | libc::CLONE_NEWIPC;
        // A new user namespace needs no privilege where the system allows it.
        own_process::unshare(libc::CLONE_NEWUSER | elsewhere) || own_process::unshare(elsewhere)
    }

    pub(super) fn give_up_files() -> bool {
        let give_up = || {
            Ruleset::default()
                .handle_access(AccessFs::from_all(ABI::V6))?
                .handle_access(AccessNet::from_all(ABI::V6))?
                .scope(Scope::from_all(ABI::V6))?
                .create()?
                .restrict_self()
        };
        // An older kernel knows fewer kinds of access; all that it knows are dropped.
        give_up()
            .is_ok_and(|status: landlock::RestrictionStatus| status.ruleset != RulesetStatus::NotEnforced)
    }

    pub(super) fn filter_system_calls() -> bool {
        filters().is_ok_and(|filters| filters.iter().all(|filter| seccompiler::apply_filter(filter).is_ok()))
    }

    type Rules = BTreeMap<i64, Vec<SeccompRule>>;

    /// Returns the two filters. The first lets the C library fall back to `clone`, whose arguments
    /// a filter can see. The second allows the needed calls and rejects everything else.
    fn filters() -> Result<[BpfProgram; 2], seccompiler::BackendError> {
        let arch = TargetArch::try_from(std::env::consts::ARCH)?;
        let errno = |errno: i32| SeccompAction::Errno(errno.unsigned_abs());
        let no_clone3 = Rules::from([(libc::SYS_clone3, Vec::new())]);
        let no_clone3 = SeccompFilter::new(no_clone3, SeccompAction::Allow, errno(libc::ENOSYS), arch)?;
        let needed = SeccompFilter::new(needed()?, errno(libc::EPERM), SeccompAction::Allow, arch)?;
        Ok([no_clone3.try_into()?, needed.try_into()?])
    }

    /// Returns the system calls of a process that computes with several threads and has three
    /// pipes. Memory is never executable, and only threads can be created.
    fn needed() -> Result<Rules, seccompiler::BackendError> {
        let own = u64::from(std::process::id());
        let is =
            |argument, value: i32| condition(argument, SeccompCmpOp::Eq, u64::from(value.unsigned_abs()));
        let has = |argument, bits: i32| {
            let bits = u64::from(bits.unsigned_abs());
            condition(argument, SeccompCmpOp::MaskedEq(bits), bits)
        };
        let not_executable =
            || condition(2, SeccompCmpOp::MaskedEq(u64::from(libc::PROT_EXEC.unsigned_abs())), 0);
        let to_output = || {
            let last = u64::from(LAST_STREAM.unsigned_abs());
            SeccompRule::new(vec![condition(0, SeccompCmpOp::Ge, 1)?, condition(0, SeccompCmpOp::Le, last)?])
        };
        let mut rules: Rules = ALWAYS.iter().map(|call| (*call, Vec::new())).collect();
        rules.extend([
            (libc::SYS_read, vec![SeccompRule::new(vec![is(0, 0)?])?]),
            (libc::SYS_write, vec![to_output()?]),
            (libc::SYS_writev, vec![to_output()?]),
            (libc::SYS_mmap, vec![SeccompRule::new(vec![not_executable()?, has(3, libc::MAP_ANONYMOUS)?])?]),
            (libc::SYS_mprotect, vec![SeccompRule::new(vec![not_executable()?])?]),
            (libc::SYS_clone, vec![SeccompRule::new(vec![has(0, libc::CLONE_THREAD)?])?]),
            (libc::SYS_prctl, vec![SeccompRule::new(vec![is(0, libc::PR_SET_NAME)?])?]),
            (libc::SYS_tgkill, vec![SeccompRule::new(vec![condition(0, SeccompCmpOp::Eq, own)?])?]),
        ]);
        Ok(rules)
    }

    fn condition(
        argument: u8,
        operator: SeccompCmpOp,
        value: u64,
    ) -> Result<SeccompCondition, seccompiler::BackendError> {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
    }

    /// Allowed regardless of arguments.
    const ALWAYS: &[i64] = &[
        libc::SYS_brk,
        libc::SYS_clock_gettime,
        libc::SYS_clock_nanosleep,
        // Threads use the rule for `clone`; the other filter rejects this call.
        libc::SYS_clone3,
        libc::SYS_close,
        libc::SYS_exit,
        libc::SYS_exit_group,
        libc::SYS_futex,
        libc::SYS_getpid,
        libc::SYS_getrandom,
        libc::SYS_gettid,
        libc::SYS_madvise,
        libc::SYS_mremap,
        libc::SYS_munmap,
        libc::SYS_nanosleep,
        libc::SYS_restart_syscall,
        libc::SYS_rseq,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_sched_getaffinity,
        libc::SYS_sched_yield,
        libc::SYS_set_robust_list,
        libc::SYS_sigaltstack,
    ];
}

/// Tests for actions that confinement should have made impossible, and returns those that
/// succeed. `host` is the process that started this one.
pub(super) fn escapes(host: Option<Pid>) -> MissingMechanisms {
    let tries: [Step; 4] = [
        ("it can open files", || {
            ["/", "/proc/self/exe", "/dev/null"].iter().any(|path| std::fs::File::open(path).is_ok())
        }),
        ("it can open sockets", || {
            std::net::UdpSocket::bind("127.0.0.1:0").is_ok() || std::os::unix::net::UnixStream::pair().is_ok()
        }),
        // Lowering a limit is always permitted if the system call is allowed.
        ("it can change its limits", || {
            let lower = rustix::process::Rlimit { current: Some(3), maximum: Some(3) };
            rustix::process::setrlimit(rustix::process::Resource::Nofile, lower).is_ok()
        }),
        // Last, because success replaces this process.
        ("it can start programs", || {
            use std::os::unix::process::CommandExt as _;
            let error = std::process::Command::new("/proc/self/exe").exec();
            error.kind() != std::io::ErrorKind::PermissionDenied
        }),
    ];
    let signals = host.is_some_and(|host| rustix::process::test_kill_process(host).is_ok());
    let signals = signals.then_some("it can signal its host");
    signals.into_iter().chain(tries.into_iter().filter_map(|(name, can)| can().then_some(name))).collect()
}
