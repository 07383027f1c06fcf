//! Tests of whole files: text in, text and verdicts out.
