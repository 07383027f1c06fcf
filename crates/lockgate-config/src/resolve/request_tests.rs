//! `[[test]]` tables.

use crate::codes::Code;
use crate::keys::request_test::{self as keys, expect};
use crate::keys::top;
use crate::model::{Expectation, ExpectedFact, RequestTest};
use crate::table::{CheckedTable, Typed};

use super::{Resolver, View};

impl Resolver<'_> {
    /// The tests of the file, in their order.
    pub(super) fn request_tests(&mut self) -> Vec<RequestTest> {
        let tables = self.top().items(&top::TEST);
        let tests = tables.values().filter_map(|table| self.request_test(table));
        tests.collect()
    }

    fn request_test(&mut self, table: &CheckedTable) -> Option<RequestTest> {
        let view = View::of(table);
        let request = view.written(&keys::REQUEST)?;
        let expected = expected(&view.section(&keys::EXPECT));
        if let (true, Some(at)) = (expected.is_empty(), view.key_at(&keys::EXPECT))
            && !view.broken(&[keys::EXPECT.row()])
        {
            self.report.push_at(
                Code::MissingKey,
                at,
                "this test expects nothing",
                "it would always pass",
                "write for example expect = { site = \"app.example.com\" }",
            );
        }
        let fields = view
            .entries(&keys::HEADERS)
            .filter_map(|field| Some((field.name.clone(), field.value.clone()?)));
        Some(RequestTest {
            request: request.value.clone(),
            at: request.at.clone(),
            from: view.get(&keys::FROM),
            sni: view.get(&keys::SNI).map(Option::unwrap_or_default),
            listener: view.get(&keys::LISTENER),
            fields: fields.collect(),
            expected,
        })
    }
}

fn expected(view: &View<'_>) -> Vec<Expectation> {
    let mut all = Vec::new();
    all.extend(one(view, &expect::SITE, ExpectedFact::Site));
    all.extend(one(view, &expect::ROUTE, ExpectedFact::Route));
    all.extend(one(view, &expect::OUTCOME, ExpectedFact::Outcome));
    all.extend(one(view, &expect::STATUS, ExpectedFact::Status));
    all.extend(one(view, &expect::LOCATION, ExpectedFact::Location));
    all.extend(one(view, &expect::POOL, ExpectedFact::Pool));
    all.extend(one(view, &expect::ENDPOINT, ExpectedFact::Endpoint));
    all.extend(one(view, &expect::TARGET, ExpectedFact::Target));
    all.extend(view.entries(&expect::SENT).filter_map(|field| {
        Some(Expectation {
            of: ExpectedFact::Sent(field.name.clone(), field.value.clone()?),
            at: field.at.clone(),
        })
    }));
    all
}

fn one<K: Typed<Value: Clone>>(
    view: &View<'_>,
    key: &K,
    of: impl FnOnce(K::Value) -> ExpectedFact,
) -> Option<Expectation> {
    let written = view.written(key)?;
    Some(Expectation {
        of: of(written.value.clone()),
        at: written.at.clone(),
    })
}
