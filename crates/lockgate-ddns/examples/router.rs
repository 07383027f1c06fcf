//! The address on the internet that the home router of this machine tells, and by which protocol.
//!
//! `cargo run -p lockgate-ddns --example router`; what it does not tell is in the log, on stderr.

use std::error::Error;

use lockgate_ddns::RouterInquiry;

fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .init();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let told = runtime.block_on(async { RouterInquiry::of_this_machine()?.ask().await });
    match told {
        Ok(answer) => println!("{} by {}", answer.address, answer.protocol),
        // As the log would have it, not as `Debug` has it.
        Err(error) => return Err(error.to_string().into()),
    }
    Ok(())
}
