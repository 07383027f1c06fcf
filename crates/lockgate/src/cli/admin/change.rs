//! The arguments of the commands that change a running Lockgate until its next start.

use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand};
use lockgate_load::profile::duration;
use serde_json::{Value, json};

use super::AdminArgs;

/// A change, as the admin socket takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChangeRequest {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) body: Value,
}

impl ChangeRequest {
    /// The time that Lockgate may wait before it answers.
    pub(crate) fn waits(&self) -> Duration {
        Duration::from_secs(self.body["wait_seconds"].as_u64().unwrap_or_default())
    }
}

// No doc comments on the following types: clap would print them instead of the command's.
#[derive(Subcommand)]
pub(in crate::cli) enum EndpointCommand {
    /// Add an endpoint to a pool
    #[command(
        after_help = "Examples:\n  lockgate endpoint add app 10.0.0.3:8080\n  \
        lockgate endpoint add app unix:/run/app.sock --weight 2 --keep"
    )]
    Add {
        /// The pool, as `lockgate pools` lists it
        pool: String,
        /// The address, as in the configuration
        address: String,
        /// From 1 to 256 [default: 1, or as the configuration has it]
        #[arg(long, value_name = "N")]
        weight: Option<u64>,
        /// Use it only while no other endpoint is up
        #[arg(long)]
        backup: bool,
        /// Keep this for the next start, in the folder of `state`
        #[arg(long)]
        keep: bool,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// Remove an endpoint from its pool; open requests end
    #[command(after_help = "Example:\n  lockgate endpoint remove app/10.0.0.1:8080")]
    Remove {
        #[command(flatten)]
        endpoint: EndpointArgs,
        /// Do it also for the last endpoint of its pool that can be used
        #[arg(long)]
        force: bool,
    },
    /// Let no request begin at an endpoint; open ones end
    #[command(
        after_help = "Examples:\n  lockgate endpoint drain app/10.0.0.1:8080\n  \
        lockgate endpoint drain app/10.0.0.1:8080 --wait 5m && systemctl stop app@1"
    )]
    Drain {
        #[command(flatten)]
        endpoint: EndpointArgs,
        /// Do it also for the last endpoint of its pool that can be used
        #[arg(long)]
        force: bool,
        /// Wait until the endpoint has no request and no connection left
        #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "1m", value_parser = seconds)]
        wait: Option<u64>,
    },
    /// Let no request begin at an endpoint, and pause its health checks
    #[command(after_help = "Example:\n  lockgate endpoint maintenance app/10.0.0.1:8080 --keep")]
    Maintenance {
        #[command(flatten)]
        endpoint: EndpointArgs,
        /// Do it also for the last endpoint of its pool that can be used
        #[arg(long)]
        force: bool,
    },
    /// Take an endpoint back into its pool
    #[command(after_help = "Example:\n  lockgate endpoint ready app/10.0.0.1:8080")]
    Ready {
        #[command(flatten)]
        endpoint: EndpointArgs,
    },
    /// Set the weight of an endpoint
    #[command(
        after_help = "Examples:\n  lockgate endpoint weight app/10.0.0.1:8080 20\n  \
        lockgate endpoint weight app/10.0.0.1:8080      as configured"
    )]
    Weight {
        #[command(flatten)]
        endpoint: EndpointArgs,
        /// From 0 to 256; with 0 only its sticky clients use it [default: the configured weight]
        weight: Option<u64>,
        /// Set 0 also for the last endpoint of its pool that can be used
        #[arg(long)]
        force: bool,
    },
}

#[derive(Args)]
pub(in crate::cli) struct EndpointArgs {
    /// The pool and the endpoint, as `lockgate endpoints` lists them
    #[arg(value_name = "POOL/ENDPOINT")]
    endpoint: EndpointPath,
    /// Keep this for the next start, in the folder of `state`
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

/// `POOL/ENDPOINT`.
#[derive(Clone, Debug)]
struct EndpointPath {
    pool: String,
    endpoint: String,
}

#[derive(Subcommand)]
pub(in crate::cli) enum SiteCommand {
    /// Answer the requests of a site by an error, before its action
    #[command(subcommand)]
    Maintenance(MaintenanceCommand),
}

#[derive(Subcommand)]
pub(in crate::cli) enum MaintenanceCommand {
    /// Begin the maintenance of a site
    #[command(
        after_help = "Example:\n  lockgate site maintenance on app.example.com --retry-after 10m"
    )]
    On {
        /// The site, as in the configuration
        site: String,
        /// The status of the response, from 400 to 599
        #[arg(long, value_name = "STATUS", default_value_t = 503)]
        status: u16,
        /// When clients may try again
        #[arg(long, value_name = "TIME", default_value = "1m", value_parser = seconds)]
        retry_after: u64,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// End the maintenance of a site
    #[command(after_help = "Example:\n  lockgate site maintenance off app.example.com")]
    Off {
        /// The site, as in the configuration
        site: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// List the sites that are in maintenance
    #[command(after_help = "Example:\n  lockgate site maintenance list")]
    List(AdminArgs),
}

#[derive(Subcommand)]
pub(in crate::cli) enum ClientCommand {
    /// Close the connections of a client, and refuse its requests
    #[command(
        after_help = "Examples:\n  lockgate client ban 192.0.2.1 --for 10m\n  \
        lockgate client ban 198.51.100.0/24 --for 24h --reason \"scans for /wp-login.php\""
    )]
    Ban {
        /// An address, or a network; an IPv6 address stands for its /64
        #[arg(value_name = "ADDR|CIDR")]
        client: String,
        /// The time until the ban ends
        #[arg(long = "for", value_name = "TIME", value_parser = seconds)]
        time: u64,
        /// Why, for the list of bans and the operator log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// End a ban
    #[command(after_help = "Example:\n  lockgate client unban 192.0.2.1")]
    Unban {
        /// The address or network, as it was banned
        #[arg(value_name = "ADDR|CIDR")]
        client: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
    /// List the bans
    #[command(after_help = "Example:\n  lockgate client list")]
    List(AdminArgs),
}

impl ClientCommand {
    /// The change, and where it is asked for.
    pub(in crate::cli) fn resolve(self) -> (ChangeRequest, AdminArgs) {
        match self {
            Self::Ban {
                client,
                time,
                reason,
                admin,
            } => {
                let body = json!({ "client": client, "for_seconds": time, "reason": reason });
                (ChangeRequest::post("/v1/clients/ban", body), admin)
            }
            Self::Unban { client, admin } => {
                let body = json!({ "client": client });
                (ChangeRequest::post("/v1/clients/unban", body), admin)
            }
            Self::List(admin) => (ChangeRequest::get("/v1/clients/bans"), admin),
        }
    }
}

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(in crate::cli) struct LimitsArgs {
    #[command(subcommand)]
    command: Option<LimitsCommand>,
    #[command(flatten)]
    admin: AdminArgs,
}

#[derive(Subcommand)]
enum LimitsCommand {
    /// Forget the buckets of a rate limit, or those of a client
    #[command(
        after_help = "Examples:\n  lockgate limits clear app.example.com/login\n  \
        lockgate limits clear 192.0.2.1"
    )]
    Clear {
        /// A name of `lockgate limits`, or the address of a client
        #[arg(value_name = "NAME|CLIENT")]
        of: String,
        #[command(flatten)]
        admin: AdminArgs,
    },
}

impl LimitsArgs {
    /// The change, and where it is asked for.
    pub(in crate::cli) fn resolve(self) -> (ChangeRequest, AdminArgs) {
        match self.command {
            None => (ChangeRequest::get("/v1/limits"), self.admin),
            Some(LimitsCommand::Clear { of, admin }) => {
                let body = match of.parse::<IpAddr>() {
                    Ok(client) => json!({ "client": client.to_string() }),
                    Err(_) => json!({ "name": of }),
                };
                (ChangeRequest::post("/v1/limits/clear", body), admin)
            }
        }
    }
}

impl ChangeRequest {
    fn post(path: &'static str, body: Value) -> Self {
        Self {
            method: "POST",
            path,
            body,
        }
    }

    fn get(path: &'static str) -> Self {
        Self {
            method: "GET",
            path,
            body: Value::Null,
        }
    }
}

impl SiteCommand {
    /// The change, and where it is asked for.
    pub(in crate::cli) fn resolve(self) -> (ChangeRequest, AdminArgs) {
        const PATH: &str = "/v1/sites/maintenance";
        let Self::Maintenance(command) = self;
        match command {
            MaintenanceCommand::On {
                site,
                status,
                retry_after,
                admin,
            } => {
                let body = json!({ "site": site, "on": true, "status": status, "retry_after_seconds": retry_after });
                (ChangeRequest::post(PATH, body), admin)
            }
            MaintenanceCommand::Off { site, admin } => {
                let body = json!({ "site": site, "on": false });
                (ChangeRequest::post(PATH, body), admin)
            }
            MaintenanceCommand::List(admin) => (ChangeRequest::get(PATH), admin),
        }
    }
}

impl EndpointCommand {
    /// The change, and where it is asked for.
    pub(in crate::cli) fn resolve(self) -> (ChangeRequest, AdminArgs) {
        match self {
            Self::Add {
                pool,
                address,
                weight,
                backup,
                keep,
                admin,
            } => {
                let body = json!({
                    "pool": pool,
                    "endpoint": address,
                    "weight": weight,
                    "backup": backup,
                    "keep": keep,
                });
                (ChangeRequest::post("/v1/endpoints/add", body), admin)
            }
            Self::Remove { endpoint, force } => {
                endpoint.change("/v1/endpoints/remove", json!({ "force": force }))
            }
            Self::Drain {
                endpoint,
                force,
                wait,
            } => {
                let body = json!({ "force": force });
                let (mut change, admin) = endpoint.change("/v1/endpoints/drain", body);
                if let Some(seconds) = wait {
                    change.body["wait_seconds"] = seconds.into();
                }
                (change, admin)
            }
            Self::Maintenance { endpoint, force } => {
                endpoint.change("/v1/endpoints/maintenance", json!({ "force": force }))
            }
            Self::Ready { endpoint } => endpoint.change("/v1/endpoints/ready", json!({})),
            Self::Weight {
                endpoint,
                weight,
                force,
            } => {
                let body = json!({ "weight": weight, "force": force });
                endpoint.change("/v1/endpoints/weight", body)
            }
        }
    }
}

impl EndpointArgs {
    fn change(self, path: &'static str, mut body: Value) -> (ChangeRequest, AdminArgs) {
        body["pool"] = self.endpoint.pool.into();
        body["endpoint"] = self.endpoint.endpoint.into();
        body["keep"] = self.keep.into();
        (ChangeRequest::post(path, body), self.admin)
    }
}

impl FromStr for EndpointPath {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        // The path of a Unix socket has slashes of its own.
        let at = match written.find("/unix:") {
            Some(at) => Some(at),
            None if written.starts_with("unix:") => written.rfind('/'),
            None => written.find('/'),
        };
        let parts = at.and_then(|at| Some((written.get(..at)?, written.get(at + 1..)?)));
        match parts {
            Some((pool, endpoint)) if !pool.is_empty() && !endpoint.is_empty() => Ok(Self {
                pool: pool.to_owned(),
                endpoint: endpoint.to_owned(),
            }),
            _ => Err("write POOL/ENDPOINT, for example app/10.0.0.1:8080".to_owned()),
        }
    }
}

/// A time in whole seconds, rounded up.
fn seconds(written: &str) -> Result<u64, String> {
    let time = duration(written).map_err(|error| error.to_string())?;
    Ok(time.as_secs() + u64::from(time.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_named_by_its_pool_and_its_address() {
        let parts = |written: &str| {
            let path: EndpointPath = written.parse().ok()?;
            Some((path.pool, path.endpoint))
        };
        for (written, pool, endpoint) in [
            ("app/10.0.0.1:8080", "app", "10.0.0.1:8080"),
            ("app/unix:/run/app.sock", "app", "unix:/run/app.sock"),
            (
                "unix:/run/a.sock/10.0.0.1:80",
                "unix:/run/a.sock",
                "10.0.0.1:80",
            ),
            (
                "unix:/run/a.sock/unix:/run/b.sock",
                "unix:/run/a.sock",
                "unix:/run/b.sock",
            ),
        ] {
            let expected = Some((pool.to_owned(), endpoint.to_owned()));
            assert_eq!(parts(written), expected);
        }
        for wrong in ["", "app", "app/", "/10.0.0.1:80"] {
            assert_eq!(parts(wrong), None, "{wrong}");
        }
    }
}
