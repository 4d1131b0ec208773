//! The program: arguments, a runtime, the command, the exit code. Everything else is in the library.

use std::process::ExitCode;

use clap::Parser;
use mcp_manifold::cli::{self, Arguments, Exit};

/// Message bodies are allocated and freed on different threads, which this allocator is made for.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let Ok(runtime) = tokio::runtime::Runtime::new() else { return Exit::Failed.into() };
    let exit = runtime.block_on(cli::run(arguments));
    // A thread that waits for standard input cannot be interrupted; waiting for it would keep a finished program alive.
    runtime.shutdown_background();
    exit.into()
}
