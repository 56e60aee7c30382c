import { LabIcon } from "@jupyterlab/ui-components";

/** A graph whose one node is probed. Grey follows the theme; the probe's green stands out on both. */
const GRAPH = `
<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3 jp-icon-selectable" fill="#616161">
    <rect x="7.5" y="1.5" width="9" height="5.6" rx="1.4"/>
    <rect x="1" y="9.2" width="9" height="5.6" rx="1.4"/>
    <rect x="7.5" y="16.9" width="9" height="5.6" rx="1.4"/>
  </g>
  <path class="jp-icon3" d="M9.6 6.4 7 9.8M7 14.2l2.6 3.4M14.4 6.4l2.2 3M16.6 14.6l-2.2 3" style="fill: none"
    stroke="#616161" stroke-width="1.6"/>
  <circle cx="18.2" cy="12" r="4.8" fill="#14a37c"/>
  <circle cx="18.2" cy="12" r="1.8" fill="#fff"/>
</svg>`;

/** A record: a stack of layers. */
const LAYERS = `
<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <g class="jp-icon3 jp-icon-selectable" fill="#616161">
    <path d="M12 2 22 7.2 12 12.4 2 7.2z"/>
    <path d="M4.2 10.6 12 14.7l7.8-4.1L22 11.8 12 17 2 11.8z"/>
    <path d="M4.2 15.2 12 19.3l7.8-4.1 2.2 1.2-10 5.2-10-5.2z"/>
  </g>
</svg>`;

export const modelIcon = new LabIcon({ name: "trt-lab:model", svgstr: GRAPH });
export const recordIcon = new LabIcon({ name: "trt-lab:record", svgstr: LAYERS });
