//! The configurations in `README.md` and the guides are complete and valid as they stand there.

use std::path::{Path, PathBuf};

use lockgate_config::{Environment, parse_str_in};

/// The text of the README and of the guides.
fn pages() -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guides = std::fs::read_dir(root.join("docs/guides")).expect("the guides are there");
    let guides = guides.map(|guide| guide.expect("the guide is there").path());
    let pages = std::iter::once(root.join("README.md")).chain(guides);
    pages
        .map(|page| std::fs::read_to_string(page).expect("the page is there"))
        .collect()
}

#[test]
fn every_configuration_in_the_readme_and_the_guides_is_valid_and_without_a_warning() {
    let pages = pages();
    let blocks: Vec<&str> = pages
        .split("```toml\n")
        .skip(1)
        .map(|block| block.split("```").next().unwrap_or_default())
        .collect();
    assert!(
        blocks.len() >= 16,
        "the README and the guides show everyday configurations"
    );
    let env = Environment::none()
        .with_file("/etc/tls/app.example.com.pem", "")
        .with_file("/etc/lockgate/dns.token", "s3cret\n")
        .with_file("/etc/lockgate/influx.token", "s3cret\n")
        .with_file("/etc/lockgate/otlp.token", "s3cret\n")
        .with_file("/etc/lockgate/dns.key", "c2VjcmV0\n");
    for text in blocks {
        match parse_str_in(text, Path::new("/etc/lockgate/lockgate.toml"), &env) {
            Ok(loaded) => assert!(loaded.warnings.is_empty(), "{text}\n{}", loaded.warnings),
            Err(report) => panic!("{text}\n{report}"),
        }
    }
}
