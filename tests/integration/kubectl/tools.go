//go:build tools

// Package kubectl holds no code. It pins the kubectl that demonstrations print with: built from the
// versions and sums in go.mod and go.sum.
package kubectl

import (
	_ "k8s.io/kubernetes/cmd/kubectl"
)
