// Package setup has the commands that set up clients and gateways: doctor, context, token, config
// and ca.
package setup
