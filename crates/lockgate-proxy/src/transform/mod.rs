//! What is changed of a request or an answer on its way, without IO.
