// What the reference server offers: the tools, resources and prompts that the suite's server scenarios name, on the
// low-level server of the SDK, so that schemas and results go out just as they are written here.

import { randomBytes } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import {
    acceptedContent,
    createRequestStateCodec,
    inputRequired,
    inputResponse,
    MissingRequiredClientCapabilityError,
    ProtocolError,
    ResourceNotFoundError,
    Server
} from '@modelcontextprotocol/server';

const INVALID_PARAMS = -32602;

/** One red pixel. */
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==';
/** A header and no samples. */
const WAV = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=';

const text = value => ({ type: 'text', text: value });
const image = { type: 'image', data: PNG, mimeType: 'image/png' };
const says = value => ({ content: [text(value)] });
const resource = (uri, mimeType, body) => ({ type: 'resource', resource: { uri, mimeType, text: body } });
const noArguments = { type: 'object', properties: {} };
const form = (message, properties) => ({
    message,
    requestedSchema: { type: 'object', properties, required: Object.keys(properties) }
});
const string = { type: 'string' };

const state = createRequestStateCodec({ key: randomBytes(32) });

const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';
const declared = ctx => ctx.mcpReq.envelope?.[CAPABILITIES] ?? {};

/** Asks once for `requests`, and hands the answers on when all are there. */
async function asking(ctx, requests, withState, then) {
    const answers = ctx.mcpReq.inputResponses ?? {};
    const answered = Object.keys(requests).every(key => inputResponse(answers, key).kind !== 'missing');
    if (answered) return then(answers, ctx.mcpReq.requestState());
    const spec = { inputRequests: requests };
    if (withState !== undefined) spec.requestState = await state.mint(withState);
    return inputRequired(spec);
}

const elicit = (message, properties) => inputRequired.elicit(form(message, properties));
const askName = message => elicit(message, { name: string });
const sample = (question, maxTokens) =>
    inputRequired.createMessage({ messages: [{ role: 'user', content: text(question) }], maxTokens });

/** Tools that a scenario of either revision calls: name to schema and handler. */
const both = {
    test_simple_text: [noArguments, () => says('This is a simple text response for testing.')],
    test_image_content: [noArguments, () => ({ content: [image] })],
    test_audio_content: [noArguments, () => ({ content: [{ type: 'audio', data: WAV, mimeType: 'audio/wav' }] })],
    test_embedded_resource: [
        noArguments,
        () => ({
            content: [resource('test://embedded-resource', 'text/plain', 'This is an embedded resource content.')]
        })
    ],
    test_multiple_content_types: [
        noArguments,
        () => ({
            content: [
                text('Multiple content types test:'),
                image,
                resource('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}')
            ]
        })
    ],
    test_error_handling: [
        noArguments,
        () => ({ isError: true, ...says('This tool intentionally returns an error for testing') })
    ],
    test_tool_with_logging: [
        noArguments,
        async (_, ctx) => {
            await ctx.mcpReq.log('info', 'Tool execution started');
            await wait(50);
            await ctx.mcpReq.log('info', 'Tool processing data');
            await wait(50);
            await ctx.mcpReq.log('info', 'Tool execution completed');
            return says('Logged three times.');
        }
    ],
    test_tool_with_progress: [
        noArguments,
        async (_, ctx) => {
            const progressToken = ctx.mcpReq._meta?.progressToken;
            for (const progress of [0, 50, 100]) {
                if (progress > 0) await wait(50);
                if (progressToken === undefined) continue;
                const params = { progressToken, progress, total: 100 };
                await ctx.mcpReq.notify({ method: 'notifications/progress', params });
            }
            return says('Done, step by step.');
        }
    ]
};

/** Tools that ask in the way of the legacy era. */
const legacyOnly = {
    test_sampling: [
        { type: 'object', properties: { prompt: string }, required: ['prompt'] },
        async ({ prompt }, ctx) => {
            const messages = [{ role: 'user', content: text(prompt) }];
            const reply = await ctx.mcpReq.requestSampling({ messages, maxTokens: 100 });
            return says(`LLM response: ${reply.content.text}`);
        }
    ],
    test_elicitation: [
        { type: 'object', properties: { message: string }, required: ['message'] },
        async ({ message }, ctx) => {
            const properties = {
                username: { ...string, description: "User's response" },
                email: { ...string, description: "User's email address" }
            };
            const { action, content } = await ctx.mcpReq.elicitInput(form(message, properties));
            return says(`User response: action: ${action}, content: ${JSON.stringify(content)}`);
        }
    ],
    test_elicitation_sep1034_defaults: [
        noArguments,
        async (_, ctx) =>
            elicited(ctx, 'Please look at the defaults', {
                name: { ...string, default: 'John Doe' },
                age: { type: 'integer', default: 30 },
                score: { type: 'number', default: 95.5 },
                status: { ...string, enum: ['active', 'inactive', 'pending'], default: 'active' },
                verified: { type: 'boolean', default: true }
            })
    ],
    test_elicitation_sep1330_enums: [
        noArguments,
        async (_, ctx) =>
            elicited(ctx, 'Please choose', {
                untitledSingle: { ...string, enum: ['option1', 'option2', 'option3'] },
                titledSingle: { ...string, oneOf: titled('value', ['First Option', 'Second Option', 'Third Option']) },
                legacyEnum: {
                    ...string,
                    enum: ['opt1', 'opt2', 'opt3'],
                    enumNames: ['Option One', 'Option Two', 'Option Three']
                },
                untitledMulti: { type: 'array', items: { ...string, enum: ['option1', 'option2', 'option3'] } },
                titledMulti: {
                    type: 'array',
                    items: { anyOf: titled('value', ['First Choice', 'Second Choice', 'Third Choice']) }
                }
            })
    ]
};

const titled = (prefix, titles) => titles.map((title, index) => ({ const: `${prefix}${index + 1}`, title }));

async function elicited(ctx, message, properties) {
    const requestedSchema = { type: 'object', properties, required: [] };
    const { action, content } = await ctx.mcpReq.elicitInput({ message, requestedSchema });
    return says(`Elicitation completed: action=${action}, content=${JSON.stringify(content ?? {})}`);
}

/** Tools that ask by input_required, and those that show that a modern server keeps no state of its peer. */
const modernOnly = notify => ({
    test_input_required_result_elicitation: [
        noArguments,
        (_, ctx) => {
            const given = acceptedContent(ctx.mcpReq.inputResponses, 'user_name');
            if (typeof given?.name === 'string') return says(`Hello, ${given.name}!`);
            return inputRequired({ inputRequests: { user_name: askName('What is your name?') } });
        }
    ],
    test_input_required_result_sampling: [
        noArguments,
        (_, ctx) =>
            asking(ctx, { capital_question: sample('What is the capital of France?', 100) }, undefined, answers =>
                says(inputResponse(answers, 'capital_question').result.content.text)
            )
    ],
    test_input_required_result_list_roots: [
        noArguments,
        (_, ctx) =>
            asking(ctx, { client_roots: inputRequired.listRoots() }, undefined, answers =>
                says(`Roots: ${inputResponse(answers, 'client_roots').roots.map(root => root.uri).join(', ')}`)
            )
    ],
    test_input_required_result_request_state: [
        noArguments,
        (_, ctx) =>
            asking(ctx, { confirm: elicit('Please confirm', { ok: { type: 'boolean' } }) }, 'ok', (_answers, kept) => {
                if (kept !== 'ok') throw new ProtocolError(INVALID_PARAMS, 'requestState is missing');
                return says('state-ok');
            })
    ],
    test_input_required_result_tampered_state: [
        noArguments,
        (_, ctx) =>
            asking(ctx, { confirm: elicit('Please confirm', { ok: { type: 'boolean' } }) }, 'ok', () => says('state-ok'))
    ],
    test_input_required_result_multiple_inputs: [
        noArguments,
        (_, ctx) =>
            asking(
                ctx,
                {
                    user_name: askName('What is your name?'),
                    greeting: sample('Generate a greeting', 50),
                    client_roots: inputRequired.listRoots()
                },
                'three questions',
                () => says('Three answers came.')
            )
    ],
    test_input_required_result_multi_round: [
        noArguments,
        async (_, ctx) => {
            const kept = ctx.mcpReq.requestState();
            if (kept === undefined) {
                const inputRequests = { step1: askName('Step 1: What is your name?') };
                return inputRequired({ inputRequests, requestState: await state.mint({ step: 1 }) });
            }
            const name = acceptedContent(ctx.mcpReq.inputResponses, 'step1')?.name;
            if (kept.step === 1) {
                const inputRequests = { step2: elicit('Step 2: What is your favorite color?', { color: string }) };
                return inputRequired({ inputRequests, requestState: await state.mint({ step: 2, name }) });
            }
            const color = acceptedContent(ctx.mcpReq.inputResponses, 'step2')?.color;
            return says(`${kept.name} likes ${color}.`);
        }
    ],
    test_input_required_result_capabilities: [
        noArguments,
        (_, ctx) => {
            const can = declared(ctx);
            const requests = {};
            if (can.elicitation) requests.user_name = askName('What is your name?');
            if (can.sampling) requests.greeting = sample('Generate a greeting', 50);
            if (can.roots) requests.client_roots = inputRequired.listRoots();
            return asking(ctx, requests, undefined, () => says('What could be asked was asked.'));
        }
    ],
    test_missing_capability: [
        noArguments,
        (_, ctx) => {
            if (declared(ctx).sampling) return says('Sampling was declared.');
            throw new MissingRequiredClientCapabilityError({ requiredCapabilities: { sampling: {} } });
        }
    ],
    test_streaming_elicitation: [
        noArguments,
        (_, ctx) => asking(ctx, { user_name: askName('What is your name?') }, undefined, () => says('Thank you.'))
    ],
    test_logging_tool: [
        noArguments,
        async (_, ctx) => {
            await ctx.mcpReq.log('info', 'only for who asked for it');
            return says('Logged, if somebody wanted it.');
        }
    ],
    test_trigger_tool_change: [noArguments, async () => (await notify.toolsChanged(), says('Tools changed.'))],
    test_trigger_prompt_change: [noArguments, async () => (await notify.promptsChanged(), says('Prompts changed.'))]
});

const prompts = {
    test_simple_prompt: [[], () => [text('This is a simple prompt for testing.')]],
    test_prompt_with_arguments: [
        ['arg1', 'arg2'],
        ({ arg1, arg2 }) => [text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)]
    ],
    test_prompt_with_embedded_resource: [
        ['resourceUri'],
        ({ resourceUri }) => [
            resource(resourceUri, 'text/plain', 'Embedded resource content for testing.'),
            text('Please process the embedded resource above.')
        ]
    ],
    test_prompt_with_image: [[], () => [image, text('Please analyze the image above.')]]
};

const resources = {
    'test://static-text': ['text/plain', { text: 'This is the content of the static text resource.' }],
    'test://static-binary': ['image/png', { blob: PNG }],
    'test://watched-resource': ['text/plain', { text: 'Somebody may watch this.' }]
};

function read(uri) {
    const known = resources[uri];
    if (known) return { uri, mimeType: known[0], ...known[1] };
    const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1];
    if (id === undefined) throw new ResourceNotFoundError(uri);
    const body = JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` });
    return { uri, mimeType: 'application/json', text: body };
}

/** A server for one request (modern HTTP), session or process. `notify` tells listeners that are not on its own line. */
export function makeServer({ era }, notify) {
    const isModern = era === 'modern';
    const onItsLine = {
        toolsChanged: () => server.sendToolListChanged(),
        promptsChanged: () => server.sendPromptListChanged()
    };
    const tools = { ...both, ...(isModern ? modernOnly(notify ?? onItsLine) : legacyOnly) };
    const capabilities = {
        tools: { listChanged: true },
        prompts: { listChanged: true },
        resources: { subscribe: true },
        completions: {},
        logging: {}
    };
    const server = new Server(
        { name: 'conformance-fixture', version: '1.0.0' },
        { capabilities, requestState: { verify: state.verify } }
    );
    server.setRequestHandler('tools/list', () => ({
        tools: Object.entries(tools).map(([name, [inputSchema]]) => ({
            name,
            description: `For the scenario that calls ${name}.`,
            inputSchema
        }))
    }));
    server.setRequestHandler('tools/call', ({ params }, ctx) => {
        const tool = tools[params.name];
        if (!tool) throw new ProtocolError(INVALID_PARAMS, `unknown tool: ${params.name}`);
        return tool[1](params.arguments ?? {}, ctx);
    });
    offerPrompts(server, isModern);
    offerResources(server);
    server.setRequestHandler('completion/complete', ({ params }) => {
        const values = ['paris', 'park', 'party'].filter(word => word.startsWith(params.argument.value));
        return { completion: { values, total: values.length, hasMore: false } };
    });
    return server;
}

function offerPrompts(server, isModern) {
    const asks = 'test_input_required_result_prompt';
    const names = [...Object.keys(prompts), ...(isModern ? [asks] : [])];
    server.setRequestHandler('prompts/list', () => ({
        prompts: names.map(name => ({
            name,
            description: `For the scenario that gets ${name}.`,
            arguments: (prompts[name]?.[0] ?? []).map(argument => ({ name: argument, required: true }))
        }))
    }));
    server.setRequestHandler('prompts/get', ({ params }, ctx) => {
        const messages = contents => ({ messages: contents.map(content => ({ role: 'user', content })) });
        if (isModern && params.name === asks) {
            const requests = { user_context: elicit('What context should the prompt use?', { context: string }) };
            return asking(ctx, requests, undefined, answers =>
                messages([text(`In the context of ${acceptedContent(answers, 'user_context')?.context}.`)])
            );
        }
        const prompt = prompts[params.name];
        if (!prompt) throw new ProtocolError(INVALID_PARAMS, `unknown prompt: ${params.name}`);
        return messages(prompt[1](params.arguments ?? {}));
    });
}

function offerResources(server) {
    server.setRequestHandler('resources/list', () => ({
        resources: Object.entries(resources).map(([uri, [mimeType]]) => ({
            uri,
            name: uri.slice('test://'.length),
            description: `For the scenario that reads ${uri}.`,
            mimeType
        }))
    }));
    server.setRequestHandler('resources/templates/list', () => ({
        resourceTemplates: [
            { uriTemplate: 'test://template/{id}/data', name: 'template', mimeType: 'application/json' }
        ]
    }));
    server.setRequestHandler('resources/read', ({ params }) => ({ contents: [read(params.uri)] }));
    server.setRequestHandler('resources/subscribe', () => ({}));
    server.setRequestHandler('resources/unsubscribe', () => ({}));
}
