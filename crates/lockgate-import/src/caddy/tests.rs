//! Tests of the import of Caddyfiles.
