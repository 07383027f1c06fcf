//! Configurations: whatever is written, the answer is a configuration or mistakes that can be
//! shown.

use std::path::Path;

use lockgate_config::{Color, Environment, Report, format, parse_str_in};

/// Any text as a configuration file, in a closed environment with one variable and one more file.
pub fn config(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let env = Environment::none()
        .with_var("PORT", "8443")
        .with_file(
            "/etc/lockgate/more.toml",
            "[tcp.\":9000\"]\nproxy = \"unix:/run/more.sock\"\n",
        )
        .with_file("/etc/lockgate/secret", "127.0.0.1:3000\n");
    let name = Path::new("/etc/lockgate/fuzz.toml");
    let formatted = format(text);
    if let Ok(formatted) = &formatted {
        assert_eq!(
            format(formatted).as_ref(),
            Ok(formatted),
            "it is formatted once"
        );
    }
    match parse_str_in(text, name, &env) {
        Ok(loaded) => {
            assert!(formatted.is_ok(), "a valid one has a canonical form");
            shows(&loaded.warnings);
            assert!(!loaded.warnings.has_errors(), "an error let it through");
            let merged = loaded.merged_toml();
            if let Err(report) = parse_str_in(&merged, name, &env) {
                panic!(
                    "merged, it is refused:\n{merged}\n{}",
                    report.render(Color::Never)
                );
            }
        }
        Err(report) => {
            assert!(report.has_errors(), "refused without an error");
            shows(&report);
        }
    }
}

fn shows(report: &Report) {
    assert_eq!(report.render(Color::Never).is_empty(), report.is_empty());
    assert_eq!(report.render(Color::Always).is_empty(), report.is_empty());
    assert!(report.to_json().to_string().len() > 1);
}
