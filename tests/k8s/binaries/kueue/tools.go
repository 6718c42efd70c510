//go:build tools

// Package tools names the program that is built from sigs.k8s.io/kueue, so that go.sum covers all
// that it imports.
package tools

import _ "sigs.k8s.io/kueue/cmd/kueue"
