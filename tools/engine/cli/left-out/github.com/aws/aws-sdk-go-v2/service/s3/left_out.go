// Package s3 takes the place of the client for S3. The engine asks whether a copy within a bucket is one of S3, to mend
// its source; here it never is.
package s3

type CopyObjectInput struct{ CopySource *string }
