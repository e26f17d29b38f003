//go:build tools

// Package karpenter_aws holds no code. It pins Karpenter for AWS, to which tests hand nodes of
// `wain run` over: built from the versions and sums in go.mod and go.sum.
package karpenter_aws

import (
	_ "github.com/aws/karpenter-provider-aws/cmd/controller"
)
