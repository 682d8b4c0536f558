#![no_main]

fuzz::fuzz!("determined");
