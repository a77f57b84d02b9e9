// Package rls takes the place of a balancer for Google's own front ends. The client of Cloud Storage imports it for its
// gRPC transport; the engine's state goes over HTTP.
package rls
