//! What runs inside the virtual machine of `cargo xtask dax-vm`: the real server on real DAX, its clients and its judge.
//!
//! ```text
//!   host: xtask dax-vm            guest: terrace-proof dax-guest
//!   boots, reads the console      load:  server <-- clients (work, wire), judge after each boot
//!   cuts the power, boots again   probe: what the product makes of the machine's media
//! ```

mod console;
mod judge;
mod load;
mod probe;
mod server;
mod wire;
mod work;

use std::process::ExitCode;

/// The guest's side of `cargo xtask dax-vm`.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum What {
    /// Check what the last power cut left, then write until the next one.
    Load(load::Arguments),
    /// Check what the product makes of this machine's memory and devices.
    Probe(probe::Arguments),
}

/// Runs the command.
///
/// # Errors
/// If the guest lacks what it needs.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.what {
        What::Load(arguments) => load::run(arguments),
        What::Probe(arguments) => probe::run(arguments),
    }
}
