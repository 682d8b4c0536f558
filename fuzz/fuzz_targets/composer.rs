#![no_main]

fuzz::fuzz!("composer");
