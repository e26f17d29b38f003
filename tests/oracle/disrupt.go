package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	fakeclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/events"
)

// Command is what one pass of the disruption controller would do.
type Command struct {
	Method string `json:"method"`
	// Nodes are removed, once the claims of the answer have joined.
	Nodes []string `json:"nodes"`
}

// unhurried accepts every command: nothing happens to the cluster while one is made, so that
// looking again after 15 seconds would find the same.
type unhurried struct{}

func (unhurried) Validate(_ context.Context, command disruption.Command, _ time.Duration) (disruption.Command, error) {
	return command, nil
}

// namedMethod is a method of the controller with a name for the answer.
type namedMethod struct {
	disruption.Method
	name string
}

// disrupted is the answer of one pass: the first command that a method finds, in their order.
func (w *World) disrupted() (Answer, error) {
	ctx, cloud, watch := w.context(), &Cloud{types: w.types()}, w.clock()
	cluster, kube, err := w.cluster(ctx, cloud, watch)
	if err != nil {
		return Answer{}, err
	}
	recorder := events.NewRecorder(&record.FakeRecorder{})
	provisioner := provisioning.NewProvisioner(kube, recorder, cloud, cluster, watch, nil, nil)
	queue := disruption.NewQueue(kube, recorder, cluster, watch, provisioner)
	shared := disruption.MakeConsolidation(watch, cluster, kube, provisioner, cloud, recorder, queue)
	validator := disruption.WithValidator(unhurried{})
	methods := []namedMethod{
		{disruption.NewEmptiness(shared, validator), "emptiness"},
		{disruption.NewDrift(kube, cluster, provisioner, recorder, watch), "drift"},
		{disruption.NewMultiNodeConsolidation(shared, validator), "multi-node"},
		{disruption.NewSingleNodeConsolidation(shared, validator), "single-node"},
	}
	made := Answer{brief: w.Options.Brief}
	for _, method := range methods {
		begun, worked := time.Now(), processor()
		candidates, totals, err := disruption.GetCandidatesWithTotals(
			ctx, cluster, kube, recorder, watch, cloud, method.ShouldDisrupt, method.Class(), queue, nil)
		if err != nil {
			return Answer{}, fmt.Errorf("%s: candidates: %w", method.name, err)
		}
		if setter, balances := method.Method.(disruption.NodePoolTotalsSetter); balances {
			setter.SetNodePoolTotals(totals)
		}
		budgets, err := disruption.BuildDisruptionBudgetMapping(ctx, cluster, watch, kube, cloud, recorder, method.Reason())
		if err != nil {
			return Answer{}, fmt.Errorf("%s: budgets: %w", method.name, err)
		}
		commands, err := method.ComputeCommands(ctx, budgets, candidates...)
		if err != nil {
			return Answer{}, fmt.Errorf("%s: %w", method.name, err)
		}
		made.Passes = append(made.Passes, Pass{
			Method:     method.name,
			Candidates: len(candidates),
			Seconds:    time.Since(begun).Seconds(),
			Processor:  (processor() - worked).Seconds(),
		})
		if len(commands) > 0 && commands[0].Decision() != disruption.NoOpDecision {
			made.command(method.name, commands[0])
			return made, nil
		}
	}
	return made, nil
}

// command takes over what the method decided, with only what is left to its replacements.
func (a *Answer) command(method string, from disruption.Command) {
	made := Command{Method: method}
	for _, each := range from.Candidates {
		made.Nodes = append(made.Nodes, each.Name())
	}
	a.Command = &made
	for _, each := range from.Replacements {
		a.Claims = append(a.Claims, a.claim(each.NodeClaim))
	}
	for _, each := range from.Results.ExistingNodes {
		if len(each.Pods) > 0 {
			a.Existing = append(a.Existing, Existing{
				Name: each.Name(), ProviderID: each.ProviderID(), Pods: names(each.Pods),
			})
		}
	}
}

// clock stands still at the moment that the world is of; where it says none, it is now.
func (w *World) clock() clock.Clock {
	if w.Options.Now.IsZero() {
		return clock.RealClock{}
	}
	return fakeclock.NewFakeClock(w.Options.Now)
}
