// Package setup is the commands that set up clients: context and token.
package setup
