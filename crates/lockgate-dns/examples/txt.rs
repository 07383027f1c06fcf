//! A TXT record by a provider: written, waited for at every server of its zone, removed.
//!
//! `cargo run -p lockgate-dns --example txt PROVIDER NAME VALUE [PARAMETER=VALUE…]`, as in
//! `rfc2136 _acme-challenge.example.com abc server=10.0.0.1 key=lockgate secret=…`

use std::env;
use std::error::Error;
use std::time::Duration;

use lockgate_dns::DnsWriter;
use lockgate_rules::{DnsProvider, KnownDnsProvider, SecretText};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<_> = env::args().skip(1).collect();
    let [provider, name, value, parameters @ ..] = &*words else {
        return Err("write PROVIDER NAME VALUE [PARAMETER=VALUE…]".into());
    };
    let writer = DnsWriter::new(&settings(provider, parameters)?)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let record = writer.locate(name, value).await?;
        println!("{} in {}", record.name, record.zone);
        let published = writer.publish(&record).await;
        let seen = match published {
            Ok(()) => writer.wait_visible(&record).await,
            Err(error) => Err(error),
        };
        // It may be there, whatever was said.
        writer.remove(&record).await?;
        Ok(seen?)
    })
}

/// The settings that `dns` in `[acme]` would have.
fn settings(provider: &str, parameters: &[String]) -> Result<DnsProvider, Box<dyn Error>> {
    let provider = KnownDnsProvider::named(provider).ok_or("no provider has this name")?;
    let mut settings = DnsProvider {
        provider,
        parameters: Vec::new(),
        command: Vec::new(),
        propagation: Duration::from_secs(120),
        resolvers: Vec::new(),
    };
    for parameter in parameters {
        let (name, value) = parameter.split_once('=').ok_or("write PARAMETER=VALUE")?;
        match name {
            "resolvers" => settings.resolvers.push(value.parse()?),
            "command" => settings.command.push(value.to_owned()),
            _ => {
                let known = provider.parameters().find(|known| *known == name);
                let known = known.ok_or_else(|| format!("it takes no {name}"))?;
                let value = SecretText(value.to_owned());
                settings.parameters.push((known, value));
            }
        }
    }
    Ok(settings)
}
