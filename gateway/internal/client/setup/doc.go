// Package setup is the commands that set up clients: doctor, context and token.
package setup
