//! The parsers of option values of `load`. Their errors say what to write instead.

use std::ops::RangeInclusive;
use std::time::Duration;

use lockgate_load::expect::{BodyCheck, Length};
use lockgate_load::options::HostAddresses;
use lockgate_load::profile::duration;
use lockgate_load::target::Varying;
use lockgate_net::proxy_protocol::HeaderVersion;

pub(super) fn at_least_one(written: &str) -> Result<usize, String> {
    match written.parse() {
        Ok(number) if (1..=1_000_000).contains(&number) => Ok(number),
        _ => Err("write a number from 1 to 1000000".into()),
    }
}

pub(super) fn time(written: &str) -> Result<Duration, String> {
    if written == "0" {
        Ok(Duration::ZERO)
    } else {
        duration(written).map_err(|error| error.to_string())
    }
}

pub(super) fn positive_time(written: &str) -> Result<Duration, String> {
    match duration(written) {
        Ok(Duration::ZERO) => Err("0 is too short: write 10s, 500ms".into()),
        read => read.map_err(|error| error.to_string()),
    }
}

pub(super) fn field(written: &str) -> Result<(String, String), String> {
    match written.split_once(':') {
        Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
        None => Err("write NAME: VALUE".into()),
    }
}

pub(super) fn varying(written: &str) -> Result<Varying, String> {
    let (name, values) = field(written)?;
    Ok(Varying {
        name,
        values: values
            .split('|')
            .map(|value| value.trim().to_owned())
            .collect(),
    })
}

pub(super) fn size(written: &str) -> Result<usize, String> {
    let end = written
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(written.len());
    let (number, unit) = written.split_at(end);
    let scale = match unit {
        "" | "B" => 1,
        "KB" | "k" | "K" => 1_000,
        "MB" | "M" => 1_000_000,
        "GB" | "G" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        _ => 0,
    };
    match number
        .parse::<usize>()
        .ok()
        .and_then(|number| number.checked_mul(scale))
    {
        Some(bytes) if scale > 0 && bytes <= 1 << 30 => Ok(bytes),
        _ => Err("write a number of bytes up to 1 GB: 100, 10KB, 1MB, 64KiB".into()),
    }
}

pub(super) fn statuses(written: &str) -> Result<RangeInclusive<u16>, String> {
    let number = |text: &str| {
        text.parse::<u16>()
            .ok()
            .filter(|status| (100..=999).contains(status))
    };
    let range = match written.split_once('-') {
        Some((from, to)) => number(from).zip(number(to)),
        None => number(written).map(|status| (status, status)),
    };
    match range {
        Some((from, to)) if from <= to => Ok(from..=to),
        _ => Err("write statuses: 200 or 200-299".into()),
    }
}

pub(super) fn length(written: &str) -> Result<Length, String> {
    match written {
        "any" => Ok(Length::Any),
        number => number
            .parse()
            .map(Length::Exactly)
            .map_err(|_| "write a number of bytes, or any".into()),
    }
}

pub(super) fn hash(written: &str) -> Result<BodyCheck, String> {
    if written == "first" {
        return Ok(BodyCheck::First);
    }
    let digit = |at: usize| {
        written
            .as_bytes()
            .get(at)
            .and_then(|digit| char::from(*digit).to_digit(16))
    };
    let bytes: Option<Vec<u8>> = (0..32)
        .map(|at| Some((digit(2 * at)? * 16 + digit(2 * at + 1)?) as u8))
        .collect();
    match bytes.and_then(|bytes| bytes.try_into().ok()) {
        Some(hash) if written.len() == 64 => Ok(BodyCheck::Sha256(hash)),
        _ => Err("write 64 hexadecimal digits, or first".into()),
    }
}

/// `HOST:PORT:ADDRESS[,ADDRESS…]`, as curl has it; IPv6 addresses may be in brackets.
pub(super) fn host_addresses(written: &str) -> Result<HostAddresses, String> {
    let read = || {
        let (host, rest) = match written.strip_prefix('[') {
            Some(rest) => {
                let end = rest.find("]:")? + 2;
                (&written[..end], &written[end + 1..])
            }
            None => written.split_once(':')?,
        };
        let (port, addresses) = rest.split_once(':')?;
        let address = |text: &str| {
            let bare = text
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'));
            bare.unwrap_or(text).parse().ok()
        };
        Some(HostAddresses {
            host: Some(host).filter(|host| !host.is_empty())?.to_owned(),
            port: port.parse().ok()?,
            addresses: addresses.split(',').map(address).collect::<Option<_>>()?,
        })
    };
    read().ok_or_else(|| "write HOST:PORT:ADDRESS: app.example.com:443:192.0.2.7".into())
}

pub(super) fn proxy_version(written: &str) -> Result<HeaderVersion, String> {
    match written {
        "v1" => Ok(HeaderVersion::V1),
        "v2" => Ok(HeaderVersion::V2),
        _ => Err("write v1 or v2".into()),
    }
}

pub(super) fn watched(written: &str) -> Result<(String, u32), String> {
    let parts = written
        .split_once('=')
        .and_then(|(name, pid)| Some((name.to_owned(), pid.parse().ok()?)));
    parts
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| "write NAME=PID: nginx=1234".into())
}
