//! The pictures that `top` draws: at the sizes of terminals, and with many rows.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::top::change::{ChangeOutcome, EndpointVerb};
use crate::top::view::Step;

/// A process with so many sites, and as many pools with ten endpoints each.
fn sample(sites: usize) -> TopSample {
    let site = |number: usize| {
        json!({
            "site": format!("site-{number:03}.example.com"), "in_flight": number, "queued": 0,
            "requests": 1_000 * number, "responses": { "2xx": 900 * number, "5xx": number },
            "errors": { "connect_failed": number }, "received_bytes": 1, "sent_bytes": 1_000_000,
            "requests_per_second": number as f64, "p50_seconds": 0.003, "p99_seconds": 0.05,
        })
    };
    let endpoint = |pool: usize, number: usize| {
        json!({
            "endpoint": format!("10.{pool}.0.{number}:8080"), "weight": 1, "backup": false,
            "state": if number == 3 { "down" } else { "up" },
            "why": if number == 3 { "cannot connect: Connection refused (os error 111)" } else { "" },
            "connections": 4, "in_flight": 1, "requests": 12_345_678, "errors": { "dns_error": 2 },
            "requests_per_second": (pool * 10 + number) as f64, "p50_seconds": 0.000_4,
            "p99_seconds": 1.25,
        })
    };
    let pool = |number: usize| {
        let endpoints = (0..10).map(|one| endpoint(number, one));
        json!({ "pool": format!("pool-{number:03}"), "endpoints": endpoints.collect::<Vec<_>>() })
    };
    TopSample {
        status: read(json!({
            "version": "0.1.0", "pid": 4711, "phase": "ready", "uptime_seconds": 273_600,
            "generation": 3, "held_to_earlier_generations": 2,
            "limits": {
                "connections": { "used": 28_000, "size": 28_637 },
                "handshakes": { "used": 2, "size": 1_024 },
                "sockets": { "used": 14, "size": 28_640 },
                "memory": { "used": 61_038_422, "size": 858_993_459 },
            },
            "listeners": [{
                "name": ":443", "address": "0.0.0.0:443", "kind": "https", "connections": 120,
                "accepted": 90_321, "received_bytes": 30_211_874, "sent_bytes": 9_120_345_772_u64,
            }],
        })),
        sites: (0..sites).map(site).map(read).collect(),
        pools: (0..sites).map(pool).map(read).collect(),
        clients: read(json!({
            "clients": [{
                "client": "2001:db8:1234:5678:9abc:def0:1234:5678",
                "received_bytes": 8_120, "sent_bytes": 1_203_311,
                "received_bytes_per_second": 120, "sent_bytes_per_second": 99_000,
            }],
            "total": { "received_bytes_per_second": 120_000, "sent_bytes_per_second": 9_900_000 },
        })),
    }
}

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn picture(figures: &Figures, view: &mut TopView, size: (u16, u16)) -> Buffer {
    let backend = TestBackend::new(size.0, size.1);
    let mut terminal = Terminal::new(backend).unwrap();
    terminal
        .draw(|frame| draw(frame, figures, view, Palette::Coloured))
        .unwrap();
    terminal.backend().buffer().clone()
}

fn lines(buffer: &Buffer) -> Vec<String> {
    let width = usize::from(buffer.area.width);
    let symbols: Vec<&str> = buffer.content.iter().map(|cell| cell.symbol()).collect();
    let rows = symbols.chunks(width).map(|row| row.concat());
    rows.map(|row| row.trim_end().to_owned()).collect()
}

fn press(view: &mut TopView, keys: &str) {
    for key in keys.chars() {
        assert_eq!(
            view.press(KeyEvent::from(KeyCode::Char(key))),
            Step::Continue
        );
    }
}

#[test]
fn every_table_fits_a_small_and_a_large_terminal() {
    let figures = Figures::first(sample(100));
    for size in [(80, 24), (200, 50), (40, 12)] {
        for tab in "12345".chars() {
            let mut view = TopView::default();
            press(&mut view, &tab.to_string());
            let shown = lines(&picture(&figures, &mut view, size));
            assert_eq!(shown.len(), usize::from(size.1));
            let head = &shown[5];
            let titles = view.tab.head();
            assert!(head.starts_with(titles[0]), "{head}");
            // A column is whole or absent.
            let names: Vec<&str> = head
                .split("  ")
                .map(str::trim)
                .filter(|name| !name.is_empty())
                .collect();
            let bare: Vec<_> = names
                .iter()
                .map(|name| name.trim_end_matches('\u{25be}'))
                .collect();
            assert_eq!(bare, titles[..bare.len()], "{size:?}");
            assert!(shown[4].contains("1 sites"), "{}", shown[4]);
        }
    }
}

#[test]
fn a_terminal_of_80_columns_shows_what_matters() {
    let figures = Figures::first(sample(100));
    let mut view = TopView::default();
    let shown = lines(&picture(&figures, &mut view, (80, 24)));
    assert_eq!(
        &shown[..4],
        [
            "lockgate 0.1.0  pid 4711  ready  up 3d 4h  generation 3  held by earlier generat",
            "requests 4950.0/s  received 120.00 KB/s  sent 9.90 MB/s",
            "connections 28000/28637  handshakes 2/1024  sockets 14/28640  memory 61.04 MB",
            "errors  connect_failed 4950",
        ]
    );
    assert!(shown[6].starts_with("site-099.example.com"), "{}", shown[6]);
    assert!(shown[23].ends_with("1-17 of 100"), "{}", shown[23]);
    press(&mut view, "3");
    let shown = lines(&picture(&figures, &mut view, (80, 24)));
    for text in ["10.99.0.9:8080", "pool-099", "up", "999.0", "400 \u{b5}s"] {
        assert!(shown[6].contains(text), "{text}: {}", shown[6]);
    }
    assert!(shown[23].ends_with("1-17 of 1000"), "{}", shown[23]);
}

#[test]
fn a_large_terminal_shows_every_column() {
    let figures = Figures::first(sample(100));
    let mut view = TopView::default();
    press(&mut view, "3");
    let shown = lines(&picture(&figures, &mut view, (200, 50)));
    for title in Tab::Endpoints.head() {
        assert!(shown[5].contains(title), "{title}: {}", shown[5]);
    }
    press(&mut view, "/down");
    let shown = lines(&picture(&figures, &mut view, (200, 50)));
    assert!(shown[6].contains("Connection refused"), "{}", shown[6]);
}

#[test]
fn keys_order_filter_and_move_rows() {
    let figures = Figures::first(sample(20));
    let mut view = TopView::default();
    let first = |view: &mut TopView| {
        let shown = lines(&picture(&figures, view, (80, 24)));
        shown[6].split(' ').next().unwrap().to_owned()
    };
    assert_eq!(first(&mut view), "site-019.example.com");
    press(&mut view, "i");
    assert_eq!(first(&mut view), "site-000.example.com");
    view.press(KeyEvent::from(KeyCode::Down));
    assert_eq!(first(&mut view), "site-001.example.com");
    // No key leads beyond the last row.
    view.press(KeyEvent::from(KeyCode::End));
    assert_eq!(first(&mut view), "site-003.example.com");
    view.press(KeyEvent::from(KeyCode::PageUp));
    view.press(KeyEvent::from(KeyCode::Left));
    assert_eq!(view.order(), (0, false));
    assert_eq!(first(&mut view), "site-019.example.com");
    press(&mut view, "/SITE-007");
    assert_eq!(first(&mut view), "site-007.example.com");
    // While a filter is typed the keys of commands are letters.
    press(&mut view, "q");
    assert_eq!(first(&mut view), "");
    view.press(KeyEvent::from(KeyCode::Esc));
    assert_eq!(view.filter, "");
    assert_eq!(view.press(KeyEvent::from(KeyCode::Char('q'))), Step::End);
}

#[test]
fn states_have_colours_unless_these_are_refused() {
    let figures = Figures::first(sample(1));
    let mut view = TopView::default();
    press(&mut view, "3");
    let coloured = picture(&figures, &mut view, (80, 24));
    let has_red = |buffer: &Buffer| buffer.content.iter().any(|cell| cell.fg == Color::Red);
    assert!(has_red(&coloured));
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal
        .draw(|frame| draw(frame, &figures, &mut view, Palette::Plain))
        .unwrap();
    assert!(!has_red(terminal.backend().buffer()));
    assert_eq!(lines(&coloured), lines(terminal.backend().buffer()));
}

/// A sample of one pool, with these modes of its first endpoints.
fn administered(modes: &[&str]) -> TopSample {
    let mut sample = sample(1);
    for (number, mode) in modes.iter().enumerate() {
        sample.pools[0].endpoints[number].admin = Some((*mode).to_owned());
    }
    sample
}

#[test]
fn a_drained_endpoint_is_yellow_and_not_up() {
    // The last one is down too.
    let figures = Figures::first(administered(&["drain", "maintenance", "drain", "drain"]));
    let mut view = TopView::default();
    press(&mut view, "2");
    let shown = lines(&picture(&figures, &mut view, (80, 24)));
    let words: Vec<_> = shown[6].split_whitespace().take(3).collect();
    assert_eq!(words, ["pool-000", "6", "10"]);
    press(&mut view, "3");
    let buffer = picture(&figures, &mut view, (80, 24));
    let colour = |state: &str| {
        let row = lines(&buffer)
            .iter()
            .position(|line| line.contains(state))?;
        let cells = buffer.content.chunks(80).nth(row)?;
        let coloured = cells.iter().find(|cell| cell.fg != Color::Reset)?;
        Some(coloured.fg)
    };
    for state in ["drain  ", "maintenance  ", "drain, down"] {
        assert_eq!(colour(state), Some(Color::Yellow), "{state}");
    }
    assert_eq!(colour("up    "), Some(Color::Green));
    assert!(plain(&figures.sample).contains("drain, down"));
}

#[test]
fn an_endpoint_is_drained_after_a_question_and_made_ready_again() {
    let mut figures = Figures::first(sample(1));
    let mut view = TopView::default();
    let show = |figures: &Figures, view: &mut TopView| lines(&picture(figures, view, (80, 24)));
    // Nothing is chosen in another table, nor before a key has moved.
    show(&figures, &mut view);
    press(&mut view, "d3");
    let keys = show(&figures, &mut view)[23].clone();
    assert!(keys.contains("d drain  r ready"), "{keys}");
    press(&mut view, "d");
    let shown = show(&figures, &mut view);
    assert!(
        shown[23].starts_with("no endpoint is chosen"),
        "{}",
        shown[23]
    );
    for _ in 0..2 {
        view.press(KeyEvent::from(KeyCode::Down));
        show(&figures, &mut view);
    }
    let buffer = picture(&figures, &mut view, (80, 24));
    let is_reversed = |row: usize| {
        buffer.content[80 * row]
            .modifier
            .contains(Modifier::REVERSED)
    };
    assert!(is_reversed(7) && !is_reversed(6), "{:?}", lines(&buffer));
    // The order changes, and the choice stays with its endpoint.
    let mut newer = sample(1);
    newer.pools[0].endpoints[8].requests_per_second = Some(0.5);
    figures.take(Ok(newer));
    show(&figures, &mut view);
    press(&mut view, "d");
    let shown = show(&figures, &mut view);
    let question = "drain pool-000/10.0.0.8:8080? y/n";
    assert!(shown[23].starts_with(question), "{}", shown[23]);
    // Any other key is a no.
    press(&mut view, "q");
    assert!(!show(&figures, &mut view)[23].contains("y/n"));
    for (key, verb) in [('d', EndpointVerb::Drain), ('r', EndpointVerb::Ready)] {
        press(&mut view, &key.to_string());
        let step = view.press(KeyEvent::from(KeyCode::Char('y')));
        let change = EndpointChange {
            verb,
            pool: "pool-000".to_owned(),
            endpoint: "10.0.0.8:8080".to_owned(),
        };
        assert_eq!(step, Step::Change(change));
    }
    // An endpoint that is gone leaves no other one chosen.
    press(&mut view, "/down");
    view.press(KeyEvent::from(KeyCode::Enter));
    show(&figures, &mut view);
    press(&mut view, "d");
    assert_eq!(view.question, None);
}

#[test]
fn a_refused_change_is_shown_whole_until_a_key() {
    let figures = Figures::first(sample(1));
    let mut view = TopView::default();
    press(&mut view, "3");
    let text = "10.0.0.1:8080 is the last endpoint of app that can be used: with `--force` \
                (\"force\": true) the pool has none afterwards";
    view.outcome = Some(ChangeOutcome {
        text: text.to_owned(),
        is_refusal: true,
    });
    let buffer = picture(&figures, &mut view, (80, 24));
    let shown = lines(&buffer);
    assert_eq!(shown[22..].join(" "), text);
    assert_eq!(buffer.content[80 * 22].fg, Color::Red);
    press(&mut view, "x");
    let shown = lines(&picture(&figures, &mut view, (80, 24)));
    assert!(shown[23].contains("q quit"), "{}", shown[23]);
}

#[test]
fn new_failures_and_a_lost_process_are_shown() {
    let mut figures = Figures::first(sample(2));
    let mut view = TopView::default();
    figures.take(Ok(sample(4)));
    let shown = lines(&picture(&figures, &mut view, (80, 24)));
    assert_eq!(shown[3], "errors  connect_failed 6 (+5)");
    figures.take(Err(anyhow::anyhow!("no program listens")));
    let shown = lines(&picture(&figures, &mut view, (80, 24)));
    assert!(shown[23].starts_with("no program listens"), "{}", shown[23]);
    assert!(shown[6].starts_with("site-003"), "{}", shown[6]);
}

#[test]
fn plain_rows_have_every_table() {
    let text = plain(&sample(3));
    for words in [
        "SITE",
        "POOL",
        "ENDPOINT",
        "CLIENT",
        "LISTENER",
        "errors  connect_failed 3",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert_eq!(plain(&TopSample::default()).matches("none").count(), 1);
}
