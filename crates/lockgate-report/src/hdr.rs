//! The distributions of a run as an HdrHistogram log (`.hlog`), which HdrHistogram's own tools read
//! and plot.
//!
//! Values are nanoseconds. Each stage is an interval of latencies; in an open loop a second one
//! with the tag `service` has the times from when requests were sent. Format: version 1.3 of
//! `HistogramLogWriter`, histograms in its encoding V2, compressed. Written here, since the feature
//! of the crate that does it brings second versions of two crates that are there already (nom,
//! base64) and a compressor; of which zlib's stored blocks need none.

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use base64ct::{Base64, Encoding};

use lockgate_load::result::{LoadModel, NanosecondHistogram, RunResult};

/// Both end in 0x10: counts are variable-length integers.
const V2: u32 = 0x1c84_9313;
const V2_COMPRESSED: u32 = 0x1c84_9314;

/// The whole log. Its intervals follow each other without the pauses between stages, which a report
/// does not keep.
pub fn log(report: &RunResult) -> String {
    let began = report
        .began
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64();
    let mut out = format!(
        "#[Logged by lockgate load {}; values are nanoseconds, interval maxima milliseconds]\n\
         #[Histogram log format version 1.3]\n\
         #[StartTime: {began:.3} (seconds since epoch)]\n\
         #[BaseTime: {began:.3} (seconds since epoch)]\n",
        env!("CARGO_PKG_VERSION")
    );
    let mut start = Duration::ZERO;
    for stage in &report.stages {
        let mut interval = |tag: &str, histogram: &NanosecondHistogram| {
            let (start, length) = (start.as_secs_f64(), stage.elapsed.as_secs_f64());
            let max = if histogram.is_empty() {
                0.0
            } else {
                histogram.max() as f64 / 1e6
            };
            let encoded = Base64::encode_string(&compressed(&encode(histogram)));
            writeln!(out, "{tag}{start:.3},{length:.3},{max:.3},{encoded}").expect("memory");
        };
        interval("", &stage.counts.latency);
        if report.run.model == LoadModel::Open {
            interval("Tag=service,", &stage.counts.service);
        }
        start = start.saturating_add(stage.elapsed);
    }
    out
}

/// A histogram in V2: a head of 40 bytes, then each count, runs of zeros as one negative number.
fn encode(histogram: &NanosecondHistogram) -> Vec<u8> {
    let mut counts = Vec::new();
    let mut zeros = 0;
    for bucket in histogram.iter_all() {
        match bucket.count_at_value() {
            0 => zeros += 1,
            count => {
                skip(&mut counts, zeros);
                zeros = 0;
                // A count beyond the format's signed numbers, 9.2 × 10¹⁸ requests, is out of reach.
                varint(&mut counts, i64::try_from(count).unwrap_or(i64::MAX));
            }
        }
    }
    if counts.is_empty() {
        counts.push(0); // an empty histogram has one count, of nothing
    }
    let mut out = Vec::with_capacity(40 + counts.len());
    out.extend(V2.to_be_bytes());
    out.extend((counts.len() as u32).to_be_bytes());
    out.extend(0_u32.to_be_bytes()); // values are not shifted
    out.extend(u32::from(histogram.sigfig()).to_be_bytes());
    out.extend(histogram.low().to_be_bytes());
    out.extend(histogram.high().to_be_bytes());
    out.extend(1_f64.to_be_bytes()); // and not scaled
    out.extend(counts);
    out
}

/// Writes a run of zero counts; a single zero is written as any count.
fn skip(out: &mut Vec<u8>, zeros: i64) {
    match zeros {
        0 => {}
        1 => varint(out, 0),
        more => varint(out, -more),
    }
}

/// ZigZag, then LEB128 in at most 9 bytes, the ninth of which has 8 bits.
fn varint(out: &mut Vec<u8>, number: i64) {
    let mut left = ((number << 1) ^ (number >> 63)) as u64;
    for _ in 0..8 {
        if left < 0x80 {
            break;
        }
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

/// As zlib (RFC 1950 §2.2), in stored blocks (RFC 1951 §3.2.4): logs are small, their readers only
/// want the wrapper.
fn compressed(plain: &[u8]) -> Vec<u8> {
    let blocks = plain.chunks(0xffff);
    let length = 2 + 5 * blocks.len() + plain.len() + 4;
    let mut out = Vec::with_capacity(8 + length);
    out.extend(V2_COMPRESSED.to_be_bytes());
    out.extend((length as u32).to_be_bytes());
    out.extend([0x78, 0x01]);
    let last = blocks.len().saturating_sub(1);
    for (at, block) in blocks.enumerate() {
        let length = block.len() as u16;
        out.push(u8::from(at == last));
        out.extend(length.to_le_bytes());
        out.extend((!length).to_le_bytes());
        out.extend(block);
    }
    out.extend(adler32(plain).to_be_bytes());
    out
}

/// The checksum of RFC 1950 §8.2.
fn adler32(bytes: &[u8]) -> u32 {
    let (a, b) = bytes.iter().fold((1, 0), |(a, b), &byte| {
        let a = (a + u32::from(byte)) % 65_521;
        (a, (b + a) % 65_521)
    });
    b << 16 | a
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use lockgate_load::result::StageCounts;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn a_histogram_is_encoded_byte_by_byte_as_its_own_crate_does() {
        let mut histogram = StageCounts::new().latency;
        histogram.record_n(1, 3).unwrap();
        histogram.record_n(3, 200).unwrap();
        histogram.record_n(1_000_000, 1 << 60).unwrap();
        histogram.record(2_000_000_000).unwrap();
        assert_eq!(
            hex(&encode(&histogram)),
            "1c8493130000001500000000000000030000000000000001000000174876e8003ff00000000000000006009003b9ae01808080808080808020a1af0102"
        );
        assert_eq!(
            hex(&encode(&StageCounts::new().latency)),
            "1c8493130000000100000000000000030000000000000001000000174876e8003ff000000000000000"
        );
    }

    #[test]
    fn the_payload_is_a_zlib_stream_of_blocks_with_its_checksum() {
        assert_eq!(
            hex(&compressed(b"Wikipedia")),
            "1c849314000000147801\
             010900f6ff57696b697065646961\
             11e60398"
        );
        let long = vec![7; 0xffff + 2];
        let wrapped = compressed(&long);
        assert_eq!(hex(&wrapped[8..15]), "780100ffff0000");
        assert_eq!(hex(&wrapped[15 + 0xffff..][..5]), "010200fdff");
        assert_eq!(hex(&wrapped[wrapped.len() - 4..]), "03c80071");
        assert_eq!(wrapped.len(), 8 + 2 + 5 + 0xffff + 5 + 2 + 4);
    }

    #[test]
    fn each_stage_is_an_interval_and_a_second_one_of_service_in_an_open_loop() {
        let log = log(&sample::ladder(2));
        let lines: Vec<_> = log.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(log.contains("#[BaseTime: 1700000000.000 (seconds since epoch)]\n"));
        let heads = [
            "0.000,10.000,",
            "Tag=service,0.000,10.000,",
            "10.000,10.000,",
            "Tag=service,10.000,10.000,",
        ];
        assert_eq!(lines.len(), heads.len());
        for (line, head) in lines.iter().zip(heads) {
            assert!(line.starts_with(head) && line.contains(",HISTF"), "{line}");
        }
        assert_eq!(
            super::log(&sample::report(&["closed loop"]))
                .matches("HISTF")
                .count(),
            1
        );
    }

    #[test]
    fn an_empty_histogram_is_an_interval_without_a_maximum() {
        let mut report = sample::report(&[]);
        report.stages.push(sample::stage("closed loop", 0, 1e6));
        assert!(log(&report).contains("\n0.000,10.000,0.000,HISTF"));
    }
}
