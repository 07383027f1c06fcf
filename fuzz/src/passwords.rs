//! Basic authentication: what a client sends, and files of users.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lockgate_proxy::admit::basic_auth::{Credentials, CredentialsError, LONGEST};
use lockgate_proxy::admit::htpasswd::{Htpasswd, HtpasswdMistakes, LoadError, Problem};
use lockgate_proxy::admit::password_hash::PasswordHash;

/// Any bytes as the value of Authorization.
pub fn authorization(data: &[u8]) {
    let result = Credentials::parse(data);
    let Some((_, coded)) = data.split_at_checked(6) else {
        assert!(matches!(result, Err(CredentialsError::Scheme)));
        return;
    };
    let spaces = coded.iter().take_while(|&&byte| byte == b' ').count();
    let coded = &coded[spaces..];
    // A second parser reads the same, strictly.
    let decoded = STANDARD.decode(coded);
    match result {
        Ok(credentials) => {
            assert!(data[..6].eq_ignore_ascii_case(b"Basic "));
            let (user, password) = (credentials.user(), credentials.password());
            let text = format!("{user}:{password}");
            assert!(text.len() <= LONGEST && !user.contains(':') && !text.contains('\0'));
            assert_eq!(decoded.as_deref(), Ok(text.as_bytes()));
            assert_eq!(STANDARD.encode(&text).as_bytes(), coded);
        }
        Err(CredentialsError::Base64) => assert!(decoded.is_err(), "{decoded:?}"),
        Err(CredentialsError::NoColon | CredentialsError::Text) => assert!(decoded.is_ok()),
        Err(CredentialsError::Scheme | CredentialsError::TooLong) => {}
    }
}

/// Any bytes as a file of users.
pub fn htpasswd(data: &[u8]) {
    let lines = data.split(|&byte| byte == b'\n').count();
    match Htpasswd::parse(data) {
        Ok(users) => {
            assert!(users.len() <= lines);
            // The same users on lines that end as elsewhere.
            let elsewhere: Vec<u8> = data
                .split(|&byte| byte == b'\n')
                .flat_map(|line| [line, b"\r\n"].concat())
                .collect();
            assert_eq!(
                Htpasswd::parse(&elsewhere).map(|users| users.len()).ok(),
                Some(users.len())
            );
            // All of them again is all of them twice; only the first byte order mark is none of a
            // name.
            let text = data.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(data);
            let twice = Htpasswd::parse(&[b"\n", text, b"\n", text].concat());
            let count = |mistakes: HtpasswdMistakes| mistakes.told.len() + mistakes.more;
            assert_eq!(twice.map_or_else(count, |users| users.len()), users.len());
        }
        Err(mistakes) => {
            let told = &mistakes.told;
            assert!((1..=lines).contains(&(told.len() + mistakes.more)));
            assert!(told.is_sorted_by(|one, next| one.line < next.line));
            assert!(
                told.iter()
                    .all(|mistake| (1..=lines).contains(&mistake.line))
            );
            assert!(
                told.iter()
                    .all(|mistake| mistake.problem != Problem::Name || data.contains(&b':'))
            );
            let error = LoadError::Mistakes {
                path: "users".into(),
                mistakes,
            };
            assert!(error.to_string().starts_with("users:"));
        }
    }
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    if let Ok(hash) = PasswordHash::parse(text) {
        assert!(text.starts_with('$'));
        // Only what is checked fast.
        if ["$04$", "$rounds=1000$", "$m=64,t=1,p=1$"]
            .iter()
            .any(|cost| text.contains(cost))
        {
            assert!(!hash.verify("nobody's"));
        }
    }
}
