//! The compiler process. It is confined and limited before it reads the first byte, reads one
//! component from standard input, writes the result to standard output, and exits. It also exits
//! when the host that started it does.

use super::confine::{MissingMechanisms, confine, escapes};
use super::machine_code;
use super::message::{AnswerHeader, Purpose, Request};
use super::message::{CPU_SECONDS_VARIABLE, MEMORY_VARIABLE};
use crate::config::{COMPILE_CPU, COMPILE_MEMORY_BYTES};
use crate::engine::{Compatibility, compiling_engine};
use crate::load::MAX_COMPONENT_BYTES;
use rustix::process::{Pid, Resource, Rlimit, getppid, getrlimit, setrlimit};
use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;

/// The maximum number of open files. The process opens none beyond those that it was started
/// with.
const OPEN_FILES: u64 = 32;
/// How much longer a component may be after the host has rewritten it.
const REWRITTEN_BYTES: u64 = 4 << 10;

/// The main function of the program that [`Compiler::Child`](super::Compiler::Child) starts.
/// Compiles one component, confined and under limits that it sets on itself. The program returns
/// the result from `main` and does nothing else.
#[must_use]
pub fn compile_child() -> ExitCode {
    match answer_one() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // If the host is no longer listening, there is nothing left to report.
            let _ = writeln!(io::stderr(), "the compiler ended: {why}");
            ExitCode::FAILURE
        }
    }
}

fn answer_one() -> io::Result<()> {
    bound_this_process()?;
    let host = getppid();
    let lacking = confine();
    let mut header = [0; Request::BYTES];
    io::stdin().read_exact(&mut header)?;
    let request = Request::read(&header)
        .filter(|request| request.length <= MAX_COMPONENT_BYTES + REWRITTEN_BYTES)
        .ok_or_else(|| io::Error::other("the request does not come from a host of this version"))?;
    match request.purpose {
        Purpose::Compile => compile(&request),
        Purpose::Check => answer(false, gaps(lacking, host).as_bytes()),
    }
}

fn compile(request: &Request) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(usize::try_from(request.length).unwrap_or(0));
    io::stdin().take(request.length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != request.length {
        return Err(io::Error::other("the component is incomplete"));
    }
    end_with_the_host()?;
    let engine = compiling_engine(request.layout).map_err(io::Error::other)?;
    if Compatibility::of(&engine) != request.compatibility {
        return Err(io::Error::other("the requesting host has a different build or configuration"));
    }
    let compiled = machine_code(&engine, &bytes);
    answer(compiled.is_ok(), compiled.as_deref().unwrap_or_else(|why| why.as_bytes()))
}

fn answer(compiled: bool, body: &[u8]) -> io::Result<()> {
    let answer = AnswerHeader { compiled, length: body.len() as u64 };
    let mut out = io::stdout().lock();
    out.write_all(&answer.header())?;
    out.write_all(body)?;
    out.flush()
}

/// Describes the missing parts of the confinement.
fn gaps(lacking: MissingMechanisms, host: Option<Pid>) -> String {
    let gaps: Vec<String> = lacking
        .into_iter()
        .map(|what| format!("this system lacks {what}"))
        .chain(escapes(host).into_iter().map(str::to_owned))
        .collect();
    gaps.join("; ")
}

fn bound_this_process() -> io::Result<()> {
    // Processor time of all threads together counts in whole seconds.
    let cpu_seconds = limit(CPU_SECONDS_VARIABLE, COMPILE_CPU.as_secs());
    let memory_bytes = limit(MEMORY_VARIABLE, COMPILE_MEMORY_BYTES);
    let bounds = [
        (Resource::As, memory_bytes, memory_bytes),
        // At the first limit the system sends SIGXCPU, at the second it kills the process.
        (Resource::Cpu, cpu_seconds, cpu_seconds.saturating_add(1)),
        (Resource::Core, 0, 0),
        // No file writes; the limit does not apply to pipes.
        (Resource::Fsize, 0, 0),
        (Resource::Nofile, OPEN_FILES, OPEN_FILES),
    ];
    for (resource, current, maximum) in bounds {
        let most = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let (current, maximum) = (Some(current.min(most)), Some(maximum.min(most)));
        setrlimit(resource, Rlimit { current, maximum })?;
    }
    Ok(())
}

/// Returns a limit that the host sets by a variable. The component has no influence on it.
fn limit(variable: &str, default: u64) -> u64 {
    #[expect(clippy::disallowed_methods, reason = "the limit must be known before anything is read")]
    let given = std::env::var(variable);
    given.ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}

/// Exits when the host closes its end of standard input, which it holds open while it waits.
fn end_with_the_host() -> io::Result<()> {
    let wait = || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        #[expect(clippy::disallowed_methods, reason = "the host of this process is gone")]
        std::process::exit(1)
    };
    std::thread::Builder::new().name("host-watch".to_owned()).spawn(wait).map(drop)
}
