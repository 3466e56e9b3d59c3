// Package setup has the commands that set up clients and gateways. These are doctor, context,
// token, config and ca.
package setup
