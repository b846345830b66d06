"""Every error a user can meet, as one tree.

StallfreeError                  a fault; the command line prints one line and exits with 2
├── InputError                  a file or a value the user gave breaks a rule
│   ├── TraceError              recorded traffic
│   ├── StudyError              study file
│   ├── KnobError               an engine setting
│   ├── ModelFolderError        a model folder or its config.json
│   ├── LinkError               a KV link is unknown or unreadable, or two engines cannot share KV
│   └── SiliconError            the published GPU data does not hold what was asked for
│       └── DoesNotFitError     weights or one request are larger than the GPU's memory
├── EngineError                 a real engine did not do its part
│   ├── EngineStartError        refused a flag, ran out of memory, never became ready
│   ├── EngineVersionError      a version that the simulator's rules were not checked for
│   ├── EngineDiedError         went away in the middle of work
│   └── EngineHungError         still alive, but silent past a deadline
├── LatencyModelError           too few samples, or no such latency model
│   └── OutsideSampledError     a prediction was asked for outside the sampled region
├── SimulationError             the simulator was given something it cannot hold
├── ResultsError                a results folder is missing, damaged or of another schema version
├── EvidenceError               a replay fell behind, so that its figures prove nothing
└── MissingExtraError           an optional part is not installed

Outcomes that are no faults (nothing met the SLOs) are values, not exceptions: see
`tuner.results.Verdict`.

Every message states the rule that was broken, the value, and the way out, in one line.
"""


class StallfreeError(Exception):
    """Base of every expected fault. `str(error)` is one line a user can act on."""


class InputError(StallfreeError):
    """A file or a value the user gave breaks a rule."""


class TraceError(InputError):
    """Recorded traffic cannot be read, or breaks a rule of `Trace`."""


class StudyError(InputError):
    """A study file cannot be read, or breaks a rule."""


class KnobError(InputError):
    """An engine setting is unknown, out of range, or clashes with another."""


class ModelFolderError(InputError):
    """A model folder, or the `config.json` in it, cannot be used."""


class LinkError(InputError):
    """A KV link is unknown or cannot be read, or two engines cannot exchange KV over it."""


class SiliconError(InputError):
    """The published GPU data does not hold a model, GPU or number format, or nothing fits it."""


class DoesNotFitError(SiliconError):
    """Weights or one full request are larger than the memory of the GPUs."""


class EngineError(StallfreeError):
    """A real engine did not do its part."""


class EngineStartError(EngineError):
    """The engine refused a setting, ran out of memory, or never became ready."""


class EngineVersionError(EngineError):
    """The engine's version is one that the simulator's rules were not checked for."""


class EngineDiedError(EngineError):
    """The engine went away in the middle of work."""


class EngineHungError(EngineError):
    """The engine is alive but was silent past a deadline."""


class LatencyModelError(StallfreeError):
    """A latency model cannot be fitted, read or used."""


class OutsideSampledError(LatencyModelError):
    """A step time was asked for outside the region that was sampled."""


class SimulationError(StallfreeError):
    """The simulator was given something it cannot hold."""


class ResultsError(StallfreeError):
    """A results folder is missing, damaged or of another schema version."""


class EvidenceError(StallfreeError):
    """A replay fell behind its intended send times, so that its figures prove nothing."""


class MissingExtraError(StallfreeError):
    """An optional part of Stallfree is not installed."""
