//! The configurations in `README.md` are complete and valid as they stand there.

use std::path::{Path, PathBuf};

use lockgate_config::{Environment, parse_str_in};

fn readme() -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    std::fs::read_to_string(path).expect("the README is there")
}

#[test]
fn every_configuration_in_the_readme_is_valid_and_without_a_warning() {
    let readme = readme();
    let blocks: Vec<&str> = readme
        .split("```toml\n")
        .skip(1)
        .map(|block| block.split("```").next().unwrap_or_default())
        .collect();
    assert!(blocks.len() >= 6, "the README shows everyday configurations");
    let env = Environment::none().with_file("/etc/tls/app.example.com.pem", "");
    for text in blocks {
        match parse_str_in(text, Path::new("/etc/lockgate/lockgate.toml"), &env) {
            Ok(loaded) => assert!(loaded.warnings.is_empty(), "{text}\n{}", loaded.warnings),
            Err(report) => panic!("{text}\n{report}"),
        }
    }
}
