//go:build tools

// Package helm holds no code. It pins the helm that renders and installs the chart: built from the
// versions and sums in go.mod and go.sum.
package helm

import (
	_ "helm.sh/helm/v3/cmd/helm"
)
