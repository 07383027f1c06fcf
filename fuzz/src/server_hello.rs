//! ServerHellos: how bytes arrive does not matter, what follows does not either, and a session fits
//! where it is kept.

use lockgate_limits::MemberIndex;
use lockgate_net::millis::Millis;
use lockgate_net::server_hello::{NoServerHello, SERVER_HELLO_MAX, peek};
use lockgate_upstream::{SessionIdReader, Sessions};

/// Any bytes as the beginning of what a server says.
pub fn server_hello(data: &[u8]) {
    let result = peek(data);
    match &result {
        Ok(Some(hello)) => {
            assert!(hello.session_id.len() <= 32);
            let long = [data, &[0; 2 * SERVER_HELLO_MAX]].concat();
            assert_eq!(peek(&long), result, "what follows matters");
        }
        Ok(None) => assert!(data.len() < SERVER_HELLO_MAX),
        Err(NoServerHello) => assert!(!data.is_empty()),
    }
    let mut decided = None;
    for cut in crate::cuts(data.len()) {
        match (&decided, peek(&data[..cut])) {
            (None, Ok(None)) => {}
            (None, said) => decided = Some(said),
            (Some(decided), said) => assert_eq!(*decided, said, "it has changed its mind at {cut}"),
        }
    }
    if let Some(decided) = decided {
        assert_eq!(decided, result);
    }
    let whole = SessionIdReader::default().session(data);
    let mut answer = SessionIdReader::default();
    assert_eq!(
        data.chunks(1 + data.len() / 64)
            .find_map(|piece| answer.session(piece)),
        whole
    );
    if let Some(session) = whole {
        let sessions = Sessions::default();
        let now = Millis::ZERO;
        sessions.learn(&session, MemberIndex::new(7), now);
        assert_eq!(sessions.find(&session, now).is_some(), !session.is_empty());
    }
}
