#![no_main]

fuzz::fuzz!("kineto");
