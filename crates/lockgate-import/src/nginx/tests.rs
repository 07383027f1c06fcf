//! Tests of the importer of nginx.
