//go:build tools

// Package karpenter holds no code. It pins the Karpenter that benchmarks and tests run beside
// `wain run`: its controllers with the KWOK provider, built from the versions and sums in go.mod
// and go.sum.
package karpenter

import (
	_ "sigs.k8s.io/karpenter/kwok"
)
