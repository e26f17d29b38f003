// Oracle answers, for worlds given as JSON lines, what Karpenter's own scheduler makes of them.
//
// A world is Kubernetes objects, instance types in the shape of our Catalog kind, and options. For
// each line on standard input there is one line on standard output: the answer to a single
// provisioning loop, or the next command of the disruption controller. Nothing is kept between worlds, so a caller that wants to see more loops
// launches the claims itself and asks again.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/karpenter/pkg/operator/logging"
)

const buffer = 1 << 20

func main() {
	log.SetLogger(logging.NopLogger)
	prepareLabels()
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

// serve answers each line until there are no more.
func serve(input io.Reader, output io.Writer) error {
	lines, answers := bufio.NewReaderSize(input, buffer), bufio.NewWriterSize(output, buffer)
	encoder := json.NewEncoder(answers)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 1 {
			if failed := encoder.Encode(answer(line)); failed != nil {
				return failed
			}
			if failed := answers.Flush(); failed != nil {
				return failed
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// answer turns whatever goes wrong into an answer, so that one bad world ends nothing.
func answer(line []byte) (made Answer) {
	defer func() {
		if fault := recover(); fault != nil {
			made = Answer{Error: fmt.Sprintf("%v\n%s", fault, debug.Stack())}
		}
	}()
	world, err := read(line)
	if err != nil {
		return Answer{Error: err.Error()}
	}
	if world.Options.Disrupt {
		made, err = world.disrupted()
	} else {
		made, err = world.solved()
	}
	if err != nil {
		return Answer{Error: err.Error()}
	}
	return made
}
