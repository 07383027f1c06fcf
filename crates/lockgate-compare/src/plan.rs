//! Plan of a comparison: programs, loads and origins, as checked values.

use crate::cpus::Cpus;
use crate::placeholders;

/// Plan of a comparison, from its file.
#[derive(Debug)]
pub struct ComparisonPlan {
    /// Title above the result.
    pub title: String,
    /// Rounds: measurements of each program under each load.
    pub rounds: usize,
    /// CPUs of the programs that are compared.
    pub programs_on: Cpus,
    /// CPUs of the origins and of the generator.
    pub others_on: Cpus,
    /// Job that templates are filled from.
    pub job: Option<TemplateJob>,
    /// Origins, started once: name and service.
    pub origins: Vec<(String, ServiceSettings)>,
    /// Programs that are compared, in the order of the file.
    pub programs: Vec<Program>,
    /// Loads that each program gets.
    pub loads: Vec<LoadCommand>,
    /// Published figures, printed beside the results.
    pub papers: Vec<Paper>,
}

/// Job of the programs from templates.
#[derive(Debug, Clone)]
pub struct TemplateJob {
    /// The work of the programs.
    pub kind: JobKind,
    /// The origin: `HOST:PORT` or `unix:PATH`, with placeholders.
    pub upstream: Option<String>,
    /// The directory of files, for [`JobKind::Static`].
    pub root: Option<String>,
    /// The certificate for clients over TLS.
    pub certificate: CertificateSource,
}

/// A kind of work, which templates are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobKind {
    /// An HTTP/1.1 proxy with kept connections to the origin.
    Http,
    /// An HTTP/1.1 proxy over TLS.
    Https,
    /// A relay of bytes over TCP.
    Tcp,
    /// A relay that terminates TLS.
    TlsToTcp,
    /// A server of static files.
    Static,
}

impl JobKind {
    /// All kinds, for parsing and messages.
    pub const ALL: [Self; 5] = [
        Self::Http,
        Self::Https,
        Self::Tcp,
        Self::TlsToTcp,
        Self::Static,
    ];

    /// Name of the kind in comparison files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Tcp => "tcp",
            Self::TlsToTcp => "tls-to-tcp",
            Self::Static => "static",
        }
    }
}

/// The certificate of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateSource {
    /// Made for the run, ECDSA P-256.
    P256,
    /// Made for the run, RSA with 2048 bits.
    Rsa2048,
    /// Certificate and key from files, in PEM.
    Files {
        /// The certificate with its chain.
        cert: String,
        /// The private key of the certificate.
        key: String,
    },
}

/// Service: how a program is started; every text may have placeholders.
#[derive(Debug, Clone)]
pub struct ServiceSettings {
    /// The command and its arguments; never empty.
    pub command: Vec<String>,
    /// Files of its own: names below its directory, contents.
    pub files: Vec<(String, String)>,
    /// Environment variables of the program.
    pub environment: Vec<(String, String)>,
    /// Address where it accepts connections once it is ready: `HOST:PORT` or `unix:PATH`.
    pub ready: String,
}

/// A program that is compared.
#[derive(Debug)]
pub struct Program {
    /// Name of the program in tables.
    pub name: String,
    /// Service, or why the program cannot do the job.
    pub service: Result<ServiceSettings, String>,
    /// A command that prints its version.
    pub version: Vec<String>,
    /// Other programs that must be installed, such as children of a shell.
    pub needs: Vec<String>,
    /// Whether it is the baseline: an origin without a proxy, pinned like origins.
    pub baseline: bool,
}

impl Program {
    /// Executables that must be installed: its command, its version command, and its needs. Not its
    /// own files.
    pub(crate) fn executables(&self) -> impl Iterator<Item = &str> {
        let command = self
            .service
            .as_ref()
            .ok()
            .and_then(|service| service.command.first());
        let all = command
            .into_iter()
            .chain(self.version.first())
            .chain(&self.needs);
        all.map(String::as_str)
            .filter(|name| !name.starts_with("{own}") && !name.starts_with("./"))
    }
}

/// A load: arguments of `lockgate load`.
#[derive(Debug, Clone)]
pub struct LoadCommand {
    /// Name of the load in tables.
    pub name: String,
    /// Targets and options, with placeholders.
    pub arguments: Vec<String>,
}

impl LoadCommand {
    /// The arguments with a plausible text for each placeholder, for a check.
    pub(crate) fn provisional(&self) -> Vec<String> {
        let mut values = placeholders::PlaceholderValues::default();
        for name in self
            .arguments
            .iter()
            .flat_map(|word| placeholders::names(word))
        {
            values.set(
                name,
                if name.starts_with("port") {
                    "80"
                } else {
                    "/provisional"
                },
            );
        }
        self.arguments
            .iter()
            .map(|word| values.fill(word))
            .collect()
    }

    /// The value of `-c` or `--connections`.
    pub fn connections(&self) -> Option<u64> {
        let mut words = self.arguments.iter();
        while let Some(word) = words.next() {
            let value = match word.split_once('=') {
                Some(("--connections" | "-c", value)) => value,
                _ if word == "-c" || word == "--connections" => words.next()?,
                _ => match word.strip_prefix("-c").filter(|_| !word.starts_with("--")) {
                    Some(value) => value,
                    None => continue,
                },
            };
            return value.parse().ok();
        }
        None
    }
}

/// Published figures, as a table.
#[derive(Debug, Clone)]
pub struct Paper {
    /// Source of the figures, for the reader.
    pub source: String,
    /// Heads of the table's columns.
    pub columns: Vec<String>,
    /// Rows, with a cell for each column.
    pub rows: Vec<Vec<String>>,
}

impl ComparisonPlan {
    /// Every text in which placeholders are filled in.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        let running = self
            .programs
            .iter()
            .filter_map(|program| program.service.as_ref().ok());
        let services = self
            .origins
            .iter()
            .map(|(_, service)| service)
            .chain(running);
        let services = services.flat_map(|service| {
            let pairs = service
                .files
                .iter()
                .chain(&service.environment)
                .map(|(_, value)| value);
            service.command.iter().chain(pairs).chain([&service.ready])
        });
        let certificate = self.job.iter().flat_map(|job| match &job.certificate {
            CertificateSource::Files { cert, key } => vec![cert, key],
            CertificateSource::P256 | CertificateSource::Rsa2048 => Vec::new(),
        });
        let job = self
            .job
            .iter()
            .flat_map(|job| job.upstream.iter().chain(&job.root));
        let loads = self.loads.iter().flat_map(|load| &load.arguments);
        let needs = self.programs.iter().flat_map(|program| &program.needs);
        let versions = self.programs.iter().flat_map(|program| &program.version);
        services
            .chain(certificate)
            .chain(job)
            .chain(loads)
            .chain(versions)
            .chain(needs)
            .map(String::as_str)
    }
}
