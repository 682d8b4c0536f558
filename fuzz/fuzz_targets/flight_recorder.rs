#![no_main]

fuzz::fuzz!("flight_recorder");
