//! The process that compiles: bounded before it reads the first byte, it takes one
//! component from its standard input, answers on its standard output, and ends. It
//! ends too when the host that started it does.

use super::message::{Answer, Request};
use super::{COMPILE_MEMORY_BYTES, COMPILE_TIME, Compatibility, machine_code};
use crate::engine::compiling_engine;
use crate::load::MAX_COMPONENT_BYTES;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;

/// Processor time of all its threads together, in seconds: a bound of the system's
/// own behind the host's deadline.
const CPU_SECONDS: u64 = 4 * COMPILE_TIME.as_secs();
/// Files that it may have open. It opens none but those that it was started with.
const OPEN_FILES: u64 = 32;

/// What a program does that [`Compiler::Child`](super::Compiler::Child) starts:
/// compiles one component under bounds of its own making. The program returns the
/// result from `main` and does nothing else.
#[must_use]
pub fn compile_child() -> ExitCode {
    match compile_one() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // Where nobody listens any more, there is nothing left to say.
            let _ = writeln!(io::stderr(), "the compiler ended: {why}");
            ExitCode::FAILURE
        }
    }
}

fn compile_one() -> io::Result<()> {
    bound_this_process()?;
    let mut header = [0; Request::BYTES];
    io::stdin().read_exact(&mut header)?;
    let request = Request::read(&header)
        .filter(|request| request.length <= MAX_COMPONENT_BYTES)
        .ok_or_else(|| io::Error::other("what asks is not a host of this version"))?;
    let mut bytes = Vec::with_capacity(usize::try_from(request.length).unwrap_or(0));
    io::stdin().take(request.length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != request.length {
        return Err(io::Error::other("the component broke off"));
    }
    end_with_the_host()?;
    let engine = compiling_engine(request.layout).map_err(io::Error::other)?;
    if Compatibility::of(&engine) != request.compatibility {
        return Err(io::Error::other("the host that asks was built or set up in another way"));
    }
    let compiled = machine_code(&engine, &bytes);
    let body = compiled.as_deref().unwrap_or_else(|why| why.as_bytes());
    let answer = Answer { compiled: compiled.is_ok(), length: body.len() as u64 };
    let mut out = io::stdout().lock();
    out.write_all(&answer.header())?;
    out.write_all(body)?;
    out.flush()
}

fn bound_this_process() -> io::Result<()> {
    let bounds = [
        (Resource::As, COMPILE_MEMORY_BYTES),
        (Resource::Cpu, CPU_SECONDS),
        (Resource::Core, 0),
        // It writes no files: pipes are not held to this.
        (Resource::Fsize, 0),
        (Resource::Nofile, OPEN_FILES),
    ];
    for (resource, bound) in bounds {
        let most = getrlimit(resource).maximum.map_or(bound, |most| most.min(bound));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

/// The host keeps the other end of standard input open for as long as it waits.
fn end_with_the_host() -> io::Result<()> {
    let wait = || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        #[expect(clippy::disallowed_methods, reason = "this process compiles for a host that is gone")]
        std::process::exit(1)
    };
    std::thread::Builder::new().name("host-watch".to_owned()).spawn(wait).map(drop)
}
