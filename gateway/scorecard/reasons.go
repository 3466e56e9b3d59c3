package main

// reasons says why a test does not pass, by suite/test. Whoever finds a reason
// out writes it here.
var reasons = map[string]string{}
