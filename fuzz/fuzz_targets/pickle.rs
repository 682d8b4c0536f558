#![no_main]

fuzz::fuzz!("pickle");
