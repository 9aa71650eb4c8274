"""The architectures of the zoo: what each is called, where it comes from, and what it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Origin = Literal["torchvision", "timm", "transformers", "own"]


@dataclass(frozen=True)
class Taken:
    """One tensor that a network takes.

    Attributes:
        shape: its shape, the batch included.
        below: None for float32 between -1 and 1; else integers, the first that is too large.
        dtype: torch's name of the integers' type; a truth value is below 2.
        name: its keyword, where the package has several that may be given.
        ordered: integers that rise from 0: positions, and times.
        prefix: ones, then zeros: which of the first tokens count.
    """

    shape: tuple[int, ...]
    below: int | None = None
    dtype: str = "int64"
    name: str = ""
    ordered: bool = False
    prefix: bool = False


@dataclass(frozen=True)
class Architecture:
    """One network, with random weights.

    Attributes:
        name: its name in the zoo, an identifier.
        origin: the package that it comes from; "own" for the modules of `ethos_hil.suites.models.zoo`.
        builder: the package's name for it.
        inputs: what it takes.
        options: keyword arguments of the builder, or of the configuration.
        kind: what it is for.
        answers: the outputs that are compared, where the package names them.
        scaled: whether the weights of convolutions and dense layers are drawn so that a signal keeps its size from
            layer to layer. With those that PyTorch draws, it fades: inputs that differ get nearly the same answer.
    """

    name: str
    origin: Origin
    builder: str
    inputs: tuple[Taken, ...] = (Taken((1, 3, 224, 224)),)
    options: Mapping[str, Any] = field(default_factory=dict)
    kind: str = "classification"
    answers: tuple[str, ...] = ()
    scaled: bool = False

    @property
    def shapes(self) -> str:
        """The shapes of its inputs, as text."""
        return ", ".join(" x ".join(map(str, part.shape)) for part in self.inputs)


def _image(size: int, channels: int = 3) -> tuple[Taken, ...]:
    return (Taken((1, channels, size, size)),)


def _vision(builder: str, size: int = 224, **options: Any) -> Architecture:
    return Architecture(builder, "torchvision", builder, _image(size), options)


def _segmenter(builder: str) -> Architecture:
    options = {"weights_backbone": None, "num_classes": 5}
    return Architecture(builder, "torchvision", builder, _image(128), options, "segmentation")


def _own(builder: str, kind: str, *inputs: tuple[int, ...] | Taken, scaled: bool = True) -> Architecture:
    """`builder` is the module and the class; the network is called as the class, in small letters."""
    name = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in builder.partition(".")[2])
    taken = tuple(part if isinstance(part, Taken) else Taken(part) for part in inputs)
    return Architecture(name.removeprefix("_"), "own", builder, taken, kind=kind, scaled=scaled)


def _face(
    name: str, builder: str, kind: str, inputs: tuple[Taken, ...], answers: str = "logits", **options: Any
) -> Architecture:
    return Architecture(f"hf_{name}", "transformers", builder, inputs, options, kind, tuple(answers.split()))


_TORCHVISION = (
    _vision("squeezenet1_1"),
    _vision("resnet18"),
    _vision("resnet50", 128),
    _vision("densenet121", 128),
    _vision("googlenet", 128, init_weights=False, aux_logits=False),
    _vision("mnasnet0_5"),
    _vision("mobilenet_v2"),
    _vision("mobilenet_v3_small"),
    _vision("mobilenet_v3_large"),
    _vision("shufflenet_v2_x0_5"),
    _vision("efficientnet_b0"),
    _vision("swin_t", 64),
    _segmenter("lraspp_mobilenet_v3_large"),
    _segmenter("deeplabv3_mobilenet_v3_large"),
)

_TIMM = tuple(
    Architecture(f"timm_{name}", "timm", name)
    for name in (
        "mobilenetv4_conv_small",
        "efficientnet_lite0",
        "ghostnet_050",
        "lcnet_050",
        "mixnet_s",
        "repvgg_a0",
        "rexnetr_200",
        "resnet10t",
        "ese_vovnet19b_dw",
        "edgenext_xx_small",
        "efficientvit_b0",
        "fastvit_t8",
        "levit_128s",
        "vit_tiny_patch16_224",
        "pvt_v2_b0",
        "mobilevit_xxs",
        "mixer_s32_224",
        "poolformer_s12",
        "starnet_s1",
        "convnext_atto",
        "hgnetv2_b0",
        "shvit_s1",
        "fasternet_t0",
        "repvit_m0_9",
        "skresnet18",
        "regnety_002",
    )
)

# Of these kinds timm has networks of a tenth of the usual size, for its own tests.
_TIMM_SMALL = tuple(
    Architecture(f"timm_small_{name}", "timm", f"test_{name}", _image(64), options)
    for name, options in {
        "nfnet": {},
        "mambaout": {},
        "coatnet": {"img_size": 64},
    }.items()
)

# One or two layers of each, 32 wide: what is tested is what its layers become, which a second dozen would only repeat.
_TOKENS = Taken((1, 16), 50, name="input_ids")
_TEXT = (_TOKENS, Taken((1, 16), 2, name="attention_mask", prefix=True))
_PIXELS = (Taken((1, 3, 32, 32), name="pixel_values"),)
_LARGER = (Taken((1, 3, 64, 64), name="pixel_values"),)
_TINY: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
_ENCODER = {**_TINY, "vocab_size": 50, "max_position_embeddings": 32}
_DECODER = {**_ENCODER, "use_cache": False}
_GROUPED = {**_DECODER, "num_key_value_heads": 1, "head_dim": 16}
_VIT = {**_TINY, "image_size": 32, "patch_size": 8}
_TRANSFORMERS = (
    _face("bert", "BertModel", "language", _TEXT, "last_hidden_state pooler_output", **_ENCODER),
    _face("distilbert", "DistilBertForSequenceClassification", "language", _TEXT,
          vocab_size=50, dim=32, n_layers=1, n_heads=2, hidden_dim=64, max_position_embeddings=32),
    _face("albert", "AlbertForTokenClassification", "language", _TEXT, embedding_size=16, **_ENCODER),
    _face("electra", "ElectraForSequenceClassification", "language", _TEXT, embedding_size=16, **_ENCODER),
    _face("mobilebert", "MobileBertForSequenceClassification", "language", _TEXT, embedding_size=16,
          intra_bottleneck_size=16, true_hidden_size=16, num_feedforward_networks=2, **_ENCODER),
    _face("t5_encoder", "T5EncoderModel", "language", (_TOKENS,), "last_hidden_state",
          vocab_size=50, d_model=32, d_kv=16, d_ff=64, num_layers=1, num_heads=2),
    _face("gpt2", "GPT2LMHeadModel", "language", (_TOKENS,),
          vocab_size=50, n_positions=32, n_embd=32, n_layer=1, n_head=2, use_cache=False),
    _face("opt", "OPTForCausalLM", "language", (_TOKENS,),
          vocab_size=50, max_position_embeddings=32, hidden_size=32, word_embed_proj_dim=32, ffn_dim=64,
          num_hidden_layers=1, num_attention_heads=2, use_cache=False),
    _face("gpt_neox", "GPTNeoXForCausalLM", "language", (_TOKENS,), **_DECODER),
    _face("phi", "PhiForCausalLM", "language", (_TOKENS,), **_DECODER),
    _face("llama", "LlamaForCausalLM", "language", (_TOKENS,), **_GROUPED),
    _face("qwen3", "Qwen3ForCausalLM", "language", _TEXT, **_GROUPED),
    _face("gemma2", "Gemma2ForCausalLM", "language", (_TOKENS,), **_GROUPED),
    _face("mamba", "MambaForCausalLM", "language", (Taken((1, 6), 50, name="input_ids"),),
          vocab_size=50, hidden_size=16, state_size=4, num_hidden_layers=1, use_cache=False),
    _face("clip_text", "CLIPTextModelWithProjection", "language", (_TOKENS,), "text_embeds",
          projection_dim=16, eos_token_id=2, **_ENCODER),
    _face("clip_vision", "CLIPVisionModelWithProjection", "vision", _PIXELS, "image_embeds", projection_dim=16, **_VIT),
    _face("siglip_vision", "SiglipVisionModel", "vision", _PIXELS, "pooler_output", **_VIT),
    _face("dinov2", "Dinov2Model", "vision", _PIXELS, "last_hidden_state",
          image_size=32, patch_size=8, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, mlp_ratio=2),
    _face("yolos", "YolosForObjectDetection", "detection", _PIXELS, "logits pred_boxes",
          num_detection_tokens=4, **{**_VIT, "image_size": [32, 32]}),
    _face("detr", "DetrForObjectDetection", "detection", _LARGER, "logits pred_boxes",
          d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
          encoder_ffn_dim=64, decoder_ffn_dim=64, num_queries=5, use_timm_backbone=False, use_pretrained_backbone=False,
          backbone=None, backbone_config={"model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8, 16],
                                          "depths": [1, 1], "layer_type": "basic", "out_features": ["stage2"]}),
    _face("vit_mae", "ViTMAEModel", "vision", (*_PIXELS, Taken((1, 16), name="noise")), "last_hidden_state", **_VIT),
    _face("segformer", "SegformerForSemanticSegmentation", "segmentation", _PIXELS, num_encoder_blocks=2, depths=[1, 1],
          sr_ratios=[2, 1], hidden_sizes=[16, 32], patch_sizes=[7, 3], strides=[4, 2], num_attention_heads=[1, 2],
          mlp_ratios=[2, 2], decoder_hidden_size=16),
    _face("mobilevitv2", "MobileViTV2ForImageClassification", "classification",
          _LARGER, width_multiplier=0.25, n_attn_blocks=[1, 1, 1], image_size=64),
    _face("swinv2", "Swinv2ForImageClassification", "classification", _PIXELS, image_size=32, patch_size=4,
          embed_dim=16, depths=[1, 1], num_heads=[1, 2], window_size=4),
    _face("dpt", "DPTForDepthEstimation", "depth", _PIXELS, "predicted_depth", neck_hidden_sizes=[8, 8, 8, 8],
          fusion_hidden_size=8, backbone_out_indices=[0, 1, 2, 3], reassemble_factors=[4, 2, 1, 0.5],
          **{**_VIT, "num_hidden_layers": 4, "hidden_size": 16, "intermediate_size": 32}),
    _face("whisper_encoder", "models.whisper.modeling_whisper.WhisperEncoder", "audio",
          (Taken((1, 16, 32), name="input_features"),), "last_hidden_state", d_model=32, encoder_layers=1,
          encoder_attention_heads=2, encoder_ffn_dim=64, num_mel_bins=16, max_source_positions=16),
    _face("wav2vec2", "Wav2Vec2ForCTC", "audio", (Taken((1, 800), name="input_values"),), conv_dim=[16, 16],
          conv_kernel=[10, 4], conv_stride=[5, 4], num_feat_extract_layers=2, num_conv_pos_embeddings=8,
          num_conv_pos_embedding_groups=2, **{**_TINY, "vocab_size": 20}),
    _face("ast", "ASTForAudioClassification", "audio", (Taken((1, 32, 16), name="input_values"),), patch_size=8,
          frequency_stride=8, time_stride=8, max_length=32, num_mel_bins=16, **_TINY),
    _face("decision_transformer", "DecisionTransformerModel", "control",
          (Taken((1, 4, 6), name="states"), Taken((1, 4, 3), name="actions"), Taken((1, 4, 1), name="rewards"),
           Taken((1, 4, 1), name="returns_to_go"), Taken((1, 4), 32, name="timesteps", ordered=True)),
          "action_preds", state_dim=6, act_dim=3, max_ep_len=32, hidden_size=32, n_layer=1, n_head=2, n_positions=32),
)  # fmt: skip

_OWN = (
    _own("vision.Unet", "segmentation", (1, 3, 64, 64), scaled=False),
    _own("vision.YoloHead", "detection", (1, 3, 96, 96), scaled=False),
    _own("vision.Ssd", "detection", (1, 3, 96, 96), scaled=False),
    _own("vision.FeaturePyramid", "detection", (1, 3, 96, 96), scaled=False),
    _own("vision.Espcn", "super-resolution", (1, 1, 48, 48), scaled=False),
    _own("vision.StyleTransfer", "style", (1, 3, 64, 64), scaled=False),
    _own("vision.MlpMixer", "classification", (1, 3, 32, 32), scaled=False),
    _own("vision.AnchorFree", "detection", (1, 3, 64, 64)),
    _own("vision.TopBoxes", "detection", (1, 3, 48, 48)),
    _own("vision.CentreNet", "pose", (1, 3, 48, 48)),
    _own("vision.FaceBoxes", "detection", (1, 3, 48, 48)),
    _own("vision.CentroidGrid", "detection", (1, 1, 48, 48)),
    _own("vision.LowLight", "restoration", Taken((1, 3, 32, 32), 256, "uint8")),
    _own("vision.SpatialTransformer", "classification", (1, 1, 28, 28)),
    _own("vision.OpticalFlow", "motion", (1, 3, 32, 32), (1, 3, 32, 32)),
    _own("vision.DenoisingUnet", "generation", (1, 3, 16, 16), (1,)),
    _own("vision.Distillation", "super-resolution", (1, 3, 24, 24)),
    _own("vision.GatedRestoration", "restoration", (1, 3, 24, 24)),
    _own("vision.CapsuleNet", "classification", (1, 1, 28, 28)),
    _own("vision.PatchAnomaly", "anomaly", (1, 3, 48, 48)),
    _own("vision.VectorQuantiser", "generation", (1, 3, 16, 16)),
    _own("vision.ShiftedFrames", "video", (1, 4, 3, 24, 24)),
    _own("vision.Video", "video", (1, 3, 4, 16, 16)),
    _own("audio.BcResnet", "audio", (1, 1, 40, 101), scaled=False),
    _own("audio.WaveSeparator", "audio", (1, 1, 1600), scaled=False),
    _own("audio.Conformer", "audio", (1, 24, 32), scaled=False),
    _own("audio.KeywordBuffer", "audio", (1, 10, 1)),
    _own("audio.KeywordStream", "audio", (1, 10, 1), (1, 10, 2), (1, 16, 4)),
    _own("audio.NoiseGains", "audio", (1, 18), (1, 12), (1, 16), (1, 20)),
    _own("audio.VoiceActivity", "audio", (1, 256), (1, 16), (1, 16)),
    _own("audio.SpeakerVector", "audio", (1, 16, 40)),
    _own("audio.ComplexMask", "audio", (1, 2, 17, 12)),
    _own("audio.Wavenet", "audio", (1, 1, 64)),
    _own("audio.WaveUnet", "audio", (1, 1, 128)),
    _own("audio.Letters", "audio", (1, 13, 48)),
    _own("audio.Separables", "audio", (1, 33, 32)),
    _own("audio.JointStep", "audio", (1, 6, 24), Taken((1, 4), 20)),
    _own("audio.DeepFilter", "audio", (1, 1, 8, 16)),
    _own("sequences.TemporalCnn", "sequence", (1, 8, 64), scaled=False),
    _own("sequences.GruCell", "sequence", (1, 12), scaled=False),
    _own("sequences.DeepConvLstm", "sequence", (1, 6, 40)),
    _own("sequences.Heartbeat", "sequence", (1, 2, 128)),
    _own("sequences.InceptionTime", "sequence", (1, 3, 64)),
    _own("sequences.Nbeats", "forecast", (1, 24)),
    _own("sequences.PatchSeries", "forecast", (1, 3, 32)),
    _own("sequences.Quantiles", "forecast", (1, 12), Taken((1,), 7)),
    _own("sequences.SeriesAutoencoder", "anomaly", (1, 8, 4)),
    _own("sequences.Actor", "control", (1, 10), Taken((1, 6), 2, "bool")),
    _own("sequences.RadarGestures", "sequence", (1, 4, 8, 8)),
    _own("structures.PointNet", "point cloud", (1, 3, 64), scaled=False),
    _own("structures.EdgeConvolution", "point cloud", (1, 16, 3)),
    _own("structures.Pillars", "point cloud", (12, 6, 5), Taken((12,), 256, ordered=True)),
    _own("structures.MessagePassing", "graph", (12, 6), Taken((2, 20), 12)),
    _own("structures.GraphAttention", "graph", (10, 6), Taken((10, 10), 2, "bool")),
    _own("structures.ClickRate", "recommendation", (1, 6), *[Taken((1, 4), 30)] * 3),
    _own("structures.Factors", "recommendation", Taken((1, 3), 10)),
    _own("structures.Radiance", "rendering", (4, 8, 3)),
    _own("structures.Splines", "table", (4, 8)),
    _own("structures.Siamese", "matching", (1, 1, 24, 24), (1, 1, 24, 24)),
    _own("language.CharTextcnn", "language", Taken((1, 24), 40)),
    _own("language.WordBag", "language", Taken((1, 12), 60)),
    _own("language.CachedStep", "language", Taken((1, 1), 40), (1, 2, 7, 8), (1, 2, 7, 8)),
    _own("language.TranslatorStep", "language", Taken((1,), 30), (1, 8, 16), Taken((1, 8), 2, "bool"),
         (1, 16), (1, 16), (1, 16)),
    _own("language.SelectiveStep", "language", (1, 12), (1, 16, 4), (1, 16, 4)),
    _own("language.Translator", "language", Taken((1, 8), 30), Taken((1, 6), 30)),
    _own("language.Tagger", "language", Taken((1, 6), 40)),
)  # fmt: skip

ARCHITECTURES = {
    architecture.name: architecture for architecture in (*_TORCHVISION, *_TIMM, *_TIMM_SMALL, *_TRANSFORMERS, *_OWN)
}
"""Every architecture, by its name."""
