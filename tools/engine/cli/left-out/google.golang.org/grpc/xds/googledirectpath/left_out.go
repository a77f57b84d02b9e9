// Package googledirectpath takes the place of a resolver that needs all of Envoy's messages. The client of Cloud Storage
// imports it for its gRPC transport; the engine's state goes over HTTP.
package googledirectpath
